"""Cluster stream: writes a cluster's own state and entries, conditional on the cluster's version.

The version is a number that each write increases.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from faultbridge.domain.cluster.state import ClusterState
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, seal
from faultbridge.domain.faults import Severity
from faultbridge.errors import Conflict
from faultbridge.ledger.append import MAX_TRIES, Stack
from faultbridge.log import log_cause
from faultbridge.storage import items, keys
from faultbridge.storage.projections import index_rows
from faultbridge.storage.writes import Absent, Equals, Put, Write

Result = TypeVar("Result")


def append_to_cluster(read_and_write: Callable[[], Result]) -> Result:
    """Run a read and its conditional write, and repeat both after a conflict with another writer.

    Raises Conflict after 20 conflicts.
    """
    for attempt in range(MAX_TRIES - 1):
        try:
            return read_and_write()
        except Conflict as conflict:
            log_cause("cluster_commit_conflict", reason=str(conflict), attempt=attempt + 1)
    return read_and_write()


def event_ids(stack: Stack, before: ClusterState, count: int) -> tuple[str, ...]:
    """Return the event ids of the next `count` entries of a cluster's stream after the state `before`."""
    stream, head = stack.stream(before.cluster), before.head
    return tuple(stream.event_id(head.epoch, head.sequence + number) for number in range(1, count + 1))


def cluster_writes(
    stack: Stack,
    before: ClusterState,
    after: ClusterState,
    drafts: tuple[Draft, ...],
    *,
    actor: Actor,
    severity: Severity | None,
    now: datetime,
) -> tuple[ClusterState, list[Write]]:
    """Return a cluster's next state, and the writes that store it with the entries made from `drafts`.

    `severity` is the severity of each entry, or None. The writes fail if the stored version is not that of `before`.
    """
    head = replace(before.head, version=before.head.version + 1)
    stream = stack.stream(before.cluster)
    entries, head = seal(stream, head, drafts, actor=actor, severity=severity, recorded_at=now)
    after = replace(after, head=head)
    unchanged = Equals("version", before.head.version) if before.head.version else Absent()
    writes: list[Write] = [Put(items.cluster_item(after, now), when=unchanged)]
    partition = keys.cluster_partition(before.cluster)
    writes += [Put(items.entry_item(entry, partition, shard=0), when=Absent()) for entry in entries]
    writes += index_rows(drafts, entries, partition, now)
    return after, writes
