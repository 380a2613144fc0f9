"""Rows, read page after page: of any query, and of a cluster in every shard (troubled nodes, roster, queue)."""

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
    table: Table,
    pk: str,
    *,
    prefix: str = "",
    after: str | None = None,
    up_to: str | None = None,
    index: Index | None = None,
    chunk: int | None = None,
) -> Iterator[Item]:
    """Read a query to its end, at most `chunk` items at a time; nothing is asked for before it is needed."""
    start = None
    while True:
        page = table.query(pk, prefix=prefix, after=after, up_to=up_to, index=index, start=start, limit=chunk)
        yield from page.items
        start = page.next
        if start is None:
            return
