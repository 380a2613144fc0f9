"""Verification peers: finds healthy instances without work, with which another instance is tested."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.dataclass import dataclass
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Clock, Table
from faultbridge.repair.spares.pool import read_spares
from faultbridge.storage import items, keys

OPERATOR = "operator."
"""The prefix of the codes of operator orders, which are no faults of the node."""


@dataclass(frozen=True, slots=True)
class VerificationPeers:
    """Finds healthy instances without work, with which an instance under verification is tested."""

    table: Table
    clock: Clock

    def cluster_of(self, instance_id: str) -> str | None:
        """Return the cluster in which an instance backs a node or is a spare, or None if it is neither."""
        node = self._node_of(instance_id)
        if node is not None:
            return node.cluster
        clusters = (str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS))
        spares = (spare for cluster in clusters for spare in read_spares(self.table, cluster))
        return next((spare.cluster for spare in spares if spare.instance_id == instance_id), None)

    def ready_spares(self, cluster: str) -> Iterator[str]:
        """Yield the instance ids of a cluster's spares that are ready and were verified in the last 24 hours."""
        now = self.clock.now()
        return (str(spare.instance_id) for spare in read_spares(self.table, cluster) if spare.serves(spare.group, now))

    def is_free(self, instance_id: str) -> bool:
        """Return whether an instance runs no work.

        The result is True if the instance backs no node, or if its node is quarantined without a fault and without a
        repair. An operator's order is no fault.
        """
        node = self._node_of(instance_id)
        return node is None or _is_kept_out(items.read_state(node, self.table.get(keys.node_state(node))))

    def _node_of(self, instance_id: str) -> NodeKey | None:
        found = self.table.get(keys.alias("instance", instance_id))
        row = items.read_alias(found) if found else None
        return row.key if row is not None and row.valid_to is None else None


def _is_kept_out(state: NodeState) -> bool:
    case = state.live_case
    return (
        state.status is NodeStatus.QUARANTINED
        and (case is None or case.status is CaseStatus.ESCALATED)
        and all(one.code.startswith(OPERATOR) for one in state.active())
    )
