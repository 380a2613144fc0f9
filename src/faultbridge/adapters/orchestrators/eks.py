"""EKS: nodes are cordoned and drained through the Kubernetes API, within the disruption budgets of what runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from faultbridge.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.ports import Answer, Clock, Member, ProviderFailure

if TYPE_CHECKING:
    from lightkube.resources.core_v1 import Node

    from faultbridge.adapters.clients import Clients
    from faultbridge.adapters.kubernetes.client import Kubernetes
    from faultbridge.adapters.kubernetes.marks import Patch
    from faultbridge.domain.clusters import ProviderRole

MOST_TRIES = 3
"""How often a node is read and patched again when somebody else changes it at the same time."""


class EksOrchestrator:
    """An Orchestrator over the Kubernetes API of EKS clusters; its client is imported when a node needs it.

    A node is found by the instance in it (`spec.providerID`), because a successor has another name; names only save
    reading all nodes.
    """

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._apis: dict[tuple[str, ProviderRole | None], Kubernetes] = {}
        self._names: dict[str, str] = {}

    @property
    def applicable(self) -> bool:
        """Tell that there is something to cordon."""
        return True

    def cordon(self, node: Member) -> Answer:
        """Make the node unschedulable, taint and label it."""
        return _answer(lambda: self._cordon(node))

    def uncordon(self, node: Member) -> Answer:
        """Take back what cordon did; a node that somebody else cordoned before stays so, and the answer says it."""
        return _answer(lambda: self._uncordon(node))

    def drain(self, node: Member, deadline: datetime) -> Answer:
        """Evict the node's pods; TIMEOUT while some are still there. After the deadline nobody is asked any more."""
        return _answer(lambda: self._drain(node, deadline))

    def _cordon(self, node: Member) -> Answer:
        from faultbridge.adapters.kubernetes.marks import isolating

        self._patch(node, isolating)
        return Answer(reason="cordoned")

    def _uncordon(self, node: Member) -> Answer:
        from faultbridge.adapters.kubernetes.marks import releasing, stays_cordoned

        before = self._patch(node, releasing)
        return Answer(reason="stays cordoned: somebody else did it" if stays_cordoned(before) else "uncordoned")

    def _drain(self, node: Member, deadline: datetime) -> Answer:
        from faultbridge.adapters.kubernetes.pods import evict_all, told

        api = self._api(node)
        found = self._find(api, node)
        if found is None:
            return Answer(reason="not a node of the cluster: nothing runs there")
        staying = evict_all(api, _name(found), late=self._clock.now() >= deadline)
        return Answer(ProviderFailure.TIMEOUT, told(staying)) if staying else Answer(reason="no pod is left")

    def _patch(self, node: Member, make: Callable[[Node], Patch | None]) -> Node:
        """Patch a node by what it is, again when somebody else was faster; returns it as it was before."""
        from lightkube.resources.core_v1 import Node
        from lightkube.types import PatchType

        from faultbridge.adapters.kubernetes.client import Refused

        api, tries = self._api(node), 0
        while True:
            found = self._find(api, node)
            if found is None:
                raise Refused(HTTPStatus.NOT_FOUND, f"the cluster has no node with instance {node.instance_id}")
            patch, name, tries = make(found), _name(found), tries + 1
            if patch is None:
                return found
            try:
                api.ask(f"patching {name}", lambda it: it.patch(Node, name, patch, patch_type=PatchType.MERGE))  # noqa: B023 - asked at once
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT or tries == MOST_TRIES:
                    raise
            else:
                return found

    def _find(self, api: Kubernetes, node: Member) -> Node | None:
        for name in dict.fromkeys(self._likely(node)):
            found = _read(api, name)
            if found is not None and _is_member(found, node):
                return self._known(node, found)
        if node.instance_id is None:
            return None
        return next((self._known(node, found) for found in api.nodes() if _is_member(found, node)), None)

    def _likely(self, node: Member) -> Iterator[str]:
        if node.instance_id:
            if node.instance_id in self._names:
                yield self._names[node.instance_id]
            if node.cluster.hyperpod_cluster:
                yield f"hyperpod-{node.instance_id}"
        yield from (node.node, *node.aliases)

    def _known(self, node: Member, found: Node) -> Node:
        if node.instance_id:
            self._names[node.instance_id] = _name(found)
        return found

    def _api(self, node: Member) -> Kubernetes:
        from faultbridge.adapters.kubernetes.client import eks

        cluster, role = node.cluster.eks_cluster, node.cluster.provider_role
        if cluster is None:
            raise Misconfigured(f"{node.cluster.cluster} is registered with orchestrator eks and no EKS cluster")
        if (cluster, role) not in self._apis:
            self._apis[cluster, role] = eks(self._clients.assuming(role) if role else self._clients, cluster)
        return self._apis[cluster, role]


def _read(api: Kubernetes, name: str) -> Node | None:
    from lightkube.resources.core_v1 import Node

    from faultbridge.adapters.kubernetes.client import Refused

    try:
        return api.ask(f"reading node {name}", lambda client: client.get(Node, name))
    except Refused as refused:
        if refused.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _is_member(found: Node, node: Member) -> bool:
    if node.instance_id is None:
        return _name(found) == node.node
    provider_id = (found.spec.providerID if found.spec else None) or ""
    return provider_id.endswith(f"/{node.instance_id}") or _name(found) == f"hyperpod-{node.instance_id}"


def _name(found: Node) -> str:
    return str(found.metadata.name) if found.metadata else ""


def _answer(verb: Callable[[], Answer]) -> Answer:
    """Let a verb answer what kept it from being done."""
    try:
        return verb()
    except FaultbridgeError as error:
        return Answer(_failure(error), str(error))


def _failure(error: FaultbridgeError) -> ProviderFailure:
    from faultbridge.adapters.kubernetes.client import Refused

    if isinstance(error, Transient):
        return ProviderFailure.TIMEOUT
    if isinstance(error, Refused):
        return _FAILURES.get(error.status, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PERMISSION_DENIED


_FAILURES: Mapping[int, ProviderFailure] = {
    HTTPStatus.NOT_FOUND: ProviderFailure.NOT_FOUND,
    HTTPStatus.CONFLICT: ProviderFailure.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS: ProviderFailure.THROTTLED,
}
