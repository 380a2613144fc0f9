"""Find and patch the Kubernetes node that runs on an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from http import HTTPStatus

from lightkube import Client
from lightkube.resources.core_v1 import Node
from lightkube.types import PatchType

from faultbridge.adapters.kubernetes.client import ApiRejection, Kubernetes
from faultbridge.adapters.kubernetes.taints import Patch
from faultbridge.dataclass import dataclass
from faultbridge.ports import ClusterNode
from faultbridge.retry import Retry

PATCH_RETRY = Retry(3, first_seconds=0)
"""Attempts to read and patch a node that other clients change at the same time."""


@dataclass(frozen=True, slots=True)
class NodeClient:
    """Finds and patches the Kubernetes nodes of one cluster.

    - If a `ClusterNode` has an instance id, the `spec.providerID` of the Kubernetes node, or on HyperPod its name, must
      end with this id. A host name is not sufficient, because another instance may have the same host name.
    - If a `ClusterNode` has no instance id, its `node` must be the name of the Kubernetes node.
    - Kubernetes nodes with probable names are read first, to avoid a list of all nodes.
    """

    api: Kubernetes
    names: dict[str, str] = field(default_factory=dict)

    def find(self, node: ClusterNode) -> Node | None:
        """Return the Kubernetes node that runs on the instance of `node`, or None if there is none.

        If `node` has no instance id, the Kubernetes node with the name `node.node` is returned.
        """
        for name in dict.fromkeys(self._likely_names(node)):
            found = self._read(name)
            if found is not None and _matches(found, node):
                return self._remember(node, found)
        if node.instance_id is None:
            return None
        return next((self._remember(node, found) for found in self.api.nodes() if _matches(found, node)), None)

    def patch(self, node: ClusterNode, make_patch: Callable[[Node], Patch | None]) -> Node:
        """Patch a Kubernetes node, and return the node as it was before the patch.

        `make_patch` returns None if nothing has to change. If another client changed the node meanwhile, the node is
        read and patched again, in at most three attempts. Raises ApiRejection with status 404 if the node does not
        exist, and with status 409 if another client changed the node during each attempt.
        """

        def read_and_patch() -> Node:
            found = self.find(node)
            if found is None:
                text = f"the cluster has no node with instance {node.instance_id}"
                raise ApiRejection(HTTPStatus.NOT_FOUND, text)
            patch = make_patch(found)
            if patch is not None:
                self._patch(name_of(found), patch)
            return found

        return PATCH_RETRY(read_and_patch, retry_on=ApiRejection, retry_if=_is_conflict)

    def _patch(self, name: str, patch: Patch) -> None:
        def apply(client: Client) -> None:
            client.patch(Node, name, patch, patch_type=PatchType.MERGE)

        self.api.call(f"patching node {name}", apply)

    def _read(self, name: str) -> Node | None:
        try:
            return self.api.call(f"reading node {name}", lambda client: client.get(Node, name))
        except ApiRejection as rejection:
            if rejection.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _likely_names(self, node: ClusterNode) -> Iterator[str]:
        if node.instance_id:
            if node.instance_id in self.names:
                yield self.names[node.instance_id]
            if node.cluster.hyperpod_cluster:
                yield f"hyperpod-{node.instance_id}"
        yield from node.names

    def _remember(self, node: ClusterNode, found: Node) -> Node:
        if node.instance_id:
            self.names[node.instance_id] = name_of(found)
        return found


def name_of(node: Node) -> str:
    """Return the name of a Kubernetes node; empty if the node has no metadata."""
    return str(node.metadata.name) if node.metadata else ""


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, ApiRejection) and error.status == HTTPStatus.CONFLICT


def _matches(found: Node, node: ClusterNode) -> bool:
    if node.instance_id is None:
        return name_of(found) == node.node
    provider_id = (found.spec.providerID if found.spec else None) or ""
    return provider_id.endswith(f"/{node.instance_id}") or name_of(found) == f"hyperpod-{node.instance_id}"
