"""The streams of a cluster and their entries, as whoever keeps them reads them."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.ledger.append import Stack
from faultbridge.ledger.queries import every, rows_of
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item

ROSTER = "NODE#"
AT_ONCE = 500


def streams_of(table: Table, stack: Stack, config: ClusterConfig) -> Iterator[Stream]:
    """Return the cluster's own stream and that of every node."""
    yield stack.stream(config.cluster)
    for row in rows_of(table, config, ROSTER):
        yield stack.stream(config.cluster, str(row["node"]))


def heads_of(table: Table, stack: Stack, config: ClusterConfig) -> dict[str, Head]:
    """Return where every stream of a cluster stands, by its name."""
    cluster = items.read_cluster(config.cluster, table.get(keys.cluster_state(config.cluster)))
    seats = [NodeKey(config.cluster, str(row["node"])) for row in rows_of(table, config, ROSTER)]
    heads = {stack.stream(config.cluster).name: cluster.head}
    for at in range(0, len(seats), AT_ONCE):
        places = {keys.node_state(placement): placement for placement in seats[at : at + AT_ONCE]}
        found = table.get_many(places)
        heads |= {
            placement.stream: items.read_state(placement, found.get(place)).head for place, placement in places.items()
        }
    return heads


def partition(stream: Stream) -> str:
    """Return the partition of a stream's entries."""
    if stream.node is None:
        return keys.cluster_partition(stream.cluster)
    return keys.node_partition(NodeKey(stream.cluster, stream.node))


def entries_after(table: Table, stream: Stream, start: Head | None) -> Iterator[Item]:
    """Read a stream's entries after a place, in their order, consistently."""
    pk = partition(stream)
    after = keys.entry(pk, start.epoch, start.sequence).sk if start else None
    yield from every(table, pk, prefix=keys.ENTRY, after=after)
