"""Cluster stream: writes a cluster's own state and entries, conditional on the version of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ClusterState
from faultbridge.model.entries import Draft, Stream, seal
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Conflict
from faultbridge.model.fault_enums import Severity
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.projections import index_rows
from faultbridge.model.storage.writes import Absent, Equals, Item, Put, Write
from faultbridge.model.values import replace
from faultbridge.record.append import MAX_TRIES, Stack
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import node_names, query_all

Result = TypeVar("Result")


def append_to_cluster(read_and_write: Callable[[], Result]) -> Result:
    """Run a read and its conditional write, and repeat both after a conflict, up to 20 times."""
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
    """Return a cluster's next state, and the writes that store it and its entries if `before` is current."""
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


BATCH_SIZE = 500


def streams_of(table: Table, stack: Stack, config: ClusterConfig) -> Iterator[Stream]:
    """Return the entry streams of a cluster: its own stream, then that of each registered node."""
    yield stack.stream(config.cluster)
    for name in node_names(table, config):
        yield stack.stream(config.cluster, name)


def heads_of(table: Table, stack: Stack, config: ClusterConfig) -> dict[str, Head]:
    """Return the end (last epoch, sequence and hash) of every stream of a cluster, by the stream's name."""
    cluster = items.read_cluster(config.cluster, table.get(keys.cluster_state(config.cluster)))
    heads = {stack.stream(config.cluster).name: cluster.head}
    nodes = [NodeKey(config.cluster, name) for name in node_names(table, config)]
    for first in range(0, len(nodes), BATCH_SIZE):
        batch = {keys.node_state(node): node for node in nodes[first : first + BATCH_SIZE]}
        found = table.get_many(batch)
        heads |= {node.stream: items.read_state(node, found.get(key)).head for key, node in batch.items()}
    return heads


def partition(stream: Stream) -> str:
    """Return the table partition that contains a stream's entries."""
    if stream.node is None:
        return keys.cluster_partition(stream.cluster)
    return keys.node_partition(NodeKey(stream.cluster, stream.node))


def entries_after(table: Table, stream: Stream, start: Head | None) -> Iterator[Item]:
    """Read a stream's entries after `start`, or all for None, in order and with consistent reads."""
    pk = partition(stream)
    after = keys.entry(pk, start.epoch, start.sequence).sk if start else None
    yield from query_all(table, pk, prefix=keys.ENTRY, after=after)
