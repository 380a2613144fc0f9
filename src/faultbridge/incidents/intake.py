"""Intake: whether records arrive at all. While they do not, the state of nodes is unknown and none is repaired."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import NodeKey


@dataclass(frozen=True, slots=True)
class Intake:
    """Whether the path from the queue to the table has failed, and the nodes whose heartbeats are overdue.

    `last_arrival` is when the last canary or heartbeat that arrived was sent; None before the first canary.
    """

    failed: bool
    overdue: tuple[NodeKey, ...] = ()
    last_arrival: datetime | None = None

    def silent_nodes(self, cluster: str, all_nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a cluster that a failed intake affects: those with overdue heartbeats, or else all nodes.

        The result is empty while the intake works.
        """
        if not self.failed:
            return ()
        return tuple(key.node for key in self.overdue if key.cluster == cluster) or tuple(all_nodes)
