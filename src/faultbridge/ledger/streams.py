"""Streams: lists the entry streams of a cluster, the end of each, and the entries of one stream."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.ledger.append import Stack
from faultbridge.ledger.queries import node_names, query_all
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item

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
    """Read a stream's entries after `start`, in order and with consistent reads.

    If `start` is None, all entries are read.
    """
    pk = partition(stream)
    after = keys.entry(pk, start.epoch, start.sequence).sk if start else None
    yield from query_all(table, pk, prefix=keys.ENTRY, after=after)
