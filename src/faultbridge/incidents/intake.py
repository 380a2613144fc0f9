"""Intake: states whether records arrive from the nodes, and lists the silent nodes if none arrive.

The intake is the path of records from the queue to the table. If it has failed, the state of the nodes is unknown. An
incident of the intake then delays all repairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import NodeKey


@dataclass(frozen=True, slots=True)
class Intake:
    """States whether the path of records from the queue to the table works.

    - `failed` is True if no records arrive.
    - `overdue` are the nodes whose heartbeats are overdue.
    - `last_arrival` is the later of two times: when the latest canary that arrived was sent, and when the latest
      heartbeat was received. A canary is a test record that Faultbridge sends to itself. Before the first canary,
      `last_arrival` is None.
    """

    failed: bool
    overdue: tuple[NodeKey, ...] = ()
    last_arrival: datetime | None = None

    def silent_nodes(self, cluster: str, all_nodes: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a cluster that count as silent because the intake has failed.

        While the intake works, the result is empty. After the intake has failed, the result contains the nodes of the
        cluster with overdue heartbeats. If no node of the cluster has overdue heartbeats, the result is `all_nodes`.
        """
        if not self.failed:
            return ()
        return tuple(key.node for key in self.overdue if key.cluster == cluster) or tuple(all_nodes)
