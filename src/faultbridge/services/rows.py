"""Rows of a cluster, of every shard: troubled nodes, roster, queue."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.writes import Index, Item


def rows_of(table: Table, config: ClusterConfig, prefix: str) -> Iterator[Item]:
    """Read a cluster's rows of one kind, consistently, shard by shard in key order."""
    for shard in range(config.shards):
        yield from every(table, keys.shard_partition(config.cluster, shard), prefix=prefix)


def every(
    table: Table, pk: str, *, prefix: str = "", upto: str | None = None, index: Index | None = None
) -> Iterator[Item]:
    """Read a query to its end, page after page."""
    page = table.query(pk, prefix=prefix, upto=upto, index=index)
    yield from page.items
    while page.next is not None:
        page = table.query(pk, prefix=prefix, upto=upto, index=index, start=page.next)
        yield from page.items
