"""Cordon and drain nodes through the orchestrator of their cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeState
from faultbridge.ports.compute import CallResult, LaunchedInstance


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Identifies a node for its orchestrator: cluster registration, node name, instance id, names and live case.

    A name may be reused by another instance, so an orchestrator that knows instance ids matches by instance id.
    `host_names` are the names of the instance and change with it; a successor keeps the `aliases`. With `keeps_name` it
    also keeps the node's own name; otherwise `node` is a host name, perhaps that of a former instance.
    """

    cluster: ClusterConfig
    node: str
    instance_id: str | None = None
    aliases: tuple[str, ...] = ()
    case: str | None = None
    host_names: tuple[str, ...] = ()
    keeps_name: bool = True

    @classmethod
    def of(cls, state: NodeState, cluster: ClusterConfig) -> ClusterNode:
        """Return the identity of a node from its current state."""
        placement, node = state.placement, state.key.node
        instance = state.incarnation.instance_id if state.incarnation else None
        case = state.live_case.id if state.live_case else None
        named_after, hosts = placement.named_after, placement.host_names
        if named_after is not None and named_after == instance:
            hosts = (node, *hosts)
        return cls(cluster, node, instance, placement.aliases, case, hosts, named_after is None)

    @classmethod
    def of_spare(cls, candidate: LaunchedInstance, cluster: ClusterConfig) -> ClusterNode:
        """Return the identity of an instance that backs no node yet."""
        instance = candidate.instance_id
        return cls(cluster, instance, instance, host_names=candidate.host_names, keeps_name=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which an orchestrator may know the node or its instance."""
        return (self.node, *self.aliases, *self.host_names)


class Orchestrator(Protocol):
    """Cordons and drains the nodes of a cluster.

    When the orchestrator does not have the node (yet), cordon and uncordon return `NOT_FOUND`. Drain succeeds, because
    nothing runs there.
    """

    @property
    def applicable(self) -> bool:
        """Return whether the cluster has an orchestrator."""

    def cordon(self, node: ClusterNode) -> CallResult:
        """Prevent new work on the node; a repeated call is harmless."""

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Allow work on the node again; a repeated call is harmless."""

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Evict the running work; the result is ok once none is left. No eviction starts after the deadline."""
