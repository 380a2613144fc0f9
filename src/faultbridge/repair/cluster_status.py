"""The status of a cluster: recomputed from its unhealthy nodes and recorded in the cluster's stream.

The version of the cluster is read before the rows and raised by every write. A writer that read older rows therefore
loses the race and computes the status again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.domain.clusters import ClusterConfig, ClusterState
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import truncate
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.ledger.queries import shard_rows
from faultbridge.ledger.timeline import SKEW, Timeline, TimelineQuery
from faultbridge.pipeline.decide.cluster_status import cluster_status, nodes_by_status
from faultbridge.ports import Clock, Table
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import items, keys

UNHEALTHY_ROWS = "BAD#"
"""The prefix of the rows of nodes that are not healthy."""


@dataclass(frozen=True, slots=True)
class ClusterRollup:
    """Recomputes and records the status of a cluster; without a change it records no entry."""

    table: Table
    clock: Clock
    stack: Stack
    rulebook: Rulebook

    def __call__(self, cluster: str, cause: str | None = None) -> ClusterState:
        """Update one cluster. Raises Conflict after 20 lost races, and Misconfigured for an unknown cluster.

        `cause` is the id of the status change that triggered the update; without it, the timeline is searched.
        """
        config = rules_of(self.rulebook, cluster).config
        return append_to_cluster(lambda: self._once(config, cause))

    def _once(self, config: ClusterConfig, cause: str | None) -> ClusterState:
        before = items.read_cluster(config.cluster, self.table.get(keys.cluster_state(config.cluster)))
        rows = tuple(shard_rows(self.table, config, UNHEALTHY_ROWS))
        now = truncate(self.clock.now())
        after, drafts = _next_state(before, rows, config, now)
        if drafts:
            cause = cause or self._last_status_change(before) or latest_event(rows) or before.head.event_id
            drafts = tuple(replace(draft, causation_id=cause) for draft in drafts)
        after, writes = cluster_writes(
            self.stack, before, after, drafts, actor=Actor.ROLLUP, severity=highest_severity(rows), now=now
        )
        if drafts:
            self.table.transact(writes)
        else:
            self.table.write(writes[0])
        return after

    def _last_status_change(self, before: ClusterState) -> str | None:
        """Return the id of the last status change of a node since the status was last computed, or None."""
        since = before.rolled_up_at - SKEW if before.rolled_up_at else None
        wanted = TimelineQuery(before.cluster, since=since, types=(EntryType.NODE_STATUS.value,))
        last = deque(Timeline(self.table).entries(wanted), maxlen=1)
        return str(last[0].event["metadata"]["event_id"]) if last else None


def latest_event(rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the last status change among rows of unhealthy nodes, or None."""
    last = max((row for row in rows if row.get("event")), key=lambda row: str(row["updated_at"]), default=None)
    return str(last["event"]) if last else None


def highest_severity(rows: Iterable[Mapping[str, Any]]) -> Severity | None:
    """Return the highest severity among rows of unhealthy nodes, or None."""
    severities = [Severity(str(row["severity"])) for row in rows if row.get("severity")]
    return max(severities, key=lambda severity: severity.rank, default=None)


def _next_state(
    before: ClusterState, rows: Iterable[Mapping[str, Any]], config: ClusterConfig, now: datetime
) -> tuple[ClusterState, tuple[Draft, ...]]:
    unhealthy = Counter(NodeStatus(row["status"]) for row in rows)
    counts, status = nodes_by_status(unhealthy, config.expected), cluster_status(unhealthy, config.expected)
    after = replace(before, status=status, counts=counts, rolled_up_at=now)
    if (before.status, dict(before.counts)) == (status, counts):
        return after, ()
    data = {
        "from": before.status.value if before.status else None,
        "to": status.value,
        "reason": ", ".join(f"{number} {name}" for name, number in counts.items()) or "no nodes",
        "counts": counts,
        "expected": config.expected,
    }
    return after, (Draft(EntryType.CLUSTER_STATUS, now, data),)
