"""EKS: nodes are cordoned and drained through the Kubernetes API, within the disruption budgets of what runs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from faultbridge.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.ports import Answer, Clock, Member, ProviderFailure

if TYPE_CHECKING:
    from faultbridge.adapters.clients import Clients
    from faultbridge.adapters.kubernetes.members import Members
    from faultbridge.domain.clusters import ProviderRole


class EksOrchestrator:
    """An Orchestrator over the Kubernetes API of EKS clusters; its client is imported when a node needs it."""

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._clusters: dict[tuple[str, ProviderRole | None], Members] = {}

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

        self._members(node).patch(node, isolating)
        return Answer(reason="cordoned")

    def _uncordon(self, node: Member) -> Answer:
        from faultbridge.adapters.kubernetes.marks import releasing, stays_cordoned

        before = self._members(node).patch(node, releasing)
        return Answer(reason="stays cordoned: somebody else did it" if stays_cordoned(before) else "uncordoned")

    def _drain(self, node: Member, deadline: datetime) -> Answer:
        from faultbridge.adapters.kubernetes.members import name_of
        from faultbridge.adapters.kubernetes.pods import evict_all, told

        members = self._members(node)
        found = members.find(node)
        if found is None:
            return Answer(reason="not a node of the cluster: nothing runs there")
        staying = evict_all(members.api, name_of(found), late=self._clock.now() >= deadline)
        return Answer(ProviderFailure.TIMEOUT, told(staying)) if staying else Answer(reason="no pod is left")

    def _members(self, node: Member) -> Members:
        from faultbridge.adapters.kubernetes.client import eks
        from faultbridge.adapters.kubernetes.members import Members

        cluster, role = node.cluster.eks_cluster, node.cluster.provider_role
        if cluster is None:
            raise Misconfigured(f"{node.cluster.cluster} is registered with orchestrator eks and no EKS cluster")
        if (cluster, role) not in self._clusters:
            clients = self._clients.assuming(role) if role else self._clients
            self._clusters[cluster, role] = Members(eks(clients, cluster))
        return self._clusters[cluster, role]


def _answer(verb: Callable[[], Answer]) -> Answer:
    """Let a verb answer what kept it from being done."""
    try:
        return verb()
    except FaultbridgeError as error:
        return Answer(_failure(error), str(error), unanswered=isinstance(error, Transient))


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
