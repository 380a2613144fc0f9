"""Rollup: what the cluster's own stream says of it, recomputed from the rows that stand for its troubled nodes.

The version is read before the rows and raised whatever comes of it: whoever saw older rows loses and looks again.
"""

from __future__ import annotations

from collections import Counter
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
from faultbridge.pipeline.decide.cluster_status import cluster_status, counted
from faultbridge.ports import Clock, Table
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import items, keys

BAD = "BAD#"


@dataclass(frozen=True, slots=True)
class ClusterRollup:
    """Brings the state of a cluster up to date; running it twice says nothing twice."""

    table: Table
    clock: Clock
    stack: Stack
    rulebook: Rulebook

    def __call__(self, cluster: str) -> ClusterState:
        """Recompute one cluster; raises Conflict after 20 lost races, Misconfigured for an unknown one."""
        config = rules_of(self.rulebook, cluster).config
        return append_to_cluster(lambda: self._once(config))

    def _once(self, config: ClusterConfig) -> ClusterState:
        before = items.read_cluster(config.cluster, self.table.get(keys.cluster_state(config.cluster)))
        rows = tuple(shard_rows(self.table, config, BAD))
        now = truncate(self.clock.now())
        after, drafts = _judge(before, rows, config, now)
        after, writes = cluster_writes(
            self.stack, before, after, drafts, actor=Actor.ROLLUP, severity=_worst(rows), now=now
        )
        if drafts:
            self.table.transact(writes)
        else:
            self.table.write(writes[0])
        return after


def _judge(
    before: ClusterState, rows: Iterable[Mapping[str, Any]], config: ClusterConfig, now: datetime
) -> tuple[ClusterState, tuple[Draft, ...]]:
    bad = Counter(NodeStatus(row["status"]) for row in rows)
    counts, status = counted(bad, config.expected), cluster_status(bad, config.expected)
    after = replace(before, status=status, counts=counts)
    if after == before:
        return after, ()
    data = {
        "from": before.status.value if before.status else None,
        "to": status.value,
        "reason": ", ".join(f"{number} {name}" for name, number in counts.items()) or "no nodes",
        "counts": counts,
        "expected": config.expected,
    }
    return after, (Draft(EntryType.CLUSTER_STATUS, now, data),)


def _worst(rows: Iterable[Mapping[str, Any]]) -> Severity | None:
    said = [Severity(row["severity"]) for row in rows if row.get("severity")]
    return max(said, key=lambda one: one.rank, default=None)
