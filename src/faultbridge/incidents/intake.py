"""Intake: whether records arrive at all. While they do not, nothing is known about any node, and none is repaired."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from faultbridge.domain.nodes import NodeKey


@dataclass(frozen=True, slots=True)
class Intake:
    """Whether the path from the queue to the table has failed, and the nodes whose heartbeats are overdue."""

    failed: bool
    overdue: tuple[NodeKey, ...] = ()

    def silent_nodes(self, cluster: str, all_nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a cluster without heartbeats; all nodes of a cluster where none is overdue."""
        if not self.failed:
            return ()
        return tuple(key.node for key in self.overdue if key.cluster == cluster) or tuple(all_nodes)
