"""Cordon and drain nodes through the orchestrator of their cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeState
from faultbridge.ports.compute import CallResult


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Identifies a node for its orchestrator: cluster registration, node name, instance id, aliases and live case.

    A name may be reused by another instance, so an orchestrator that knows instance ids matches by instance id.
    """

    cluster: ClusterConfig
    node: str
    instance_id: str | None = None
    aliases: tuple[str, ...] = ()
    case: str | None = None

    @classmethod
    def of(cls, state: NodeState, cluster: ClusterConfig) -> ClusterNode:
        """Return the identity of a node from its current state."""
        incarnation, aliases = state.incarnation, (*state.placement.aliases, *state.placement.host_names)
        case = state.live_case.id if state.live_case else None
        return cls(cluster, state.key.node, incarnation.instance_id if incarnation else None, aliases, case)


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
