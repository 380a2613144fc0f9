"""Queries: reads a query page by page to its end, and the rows that a cluster keeps in every shard."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import Head, NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Index, Item


def shard_rows(table: Table, config: ClusterConfig, prefix: str) -> Iterator[Item]:
    """Read a cluster's rows of one kind with consistent reads: shard by shard, in key order."""
    for shard in range(config.shards):
        yield from query_all(table, keys.shard_partition(config.cluster, shard), prefix=prefix)


def node_names(table: Table, config: ClusterConfig) -> Iterator[str]:
    """Return the names of a cluster's registered nodes."""
    return (str(row["sk"]).removeprefix(keys.NODE_ROW) for row in shard_rows(table, config, keys.NODE_ROW))


def node_head(table: Table, key: NodeKey) -> Head:
    """Return the head of a node's stream. Raises Rejected `unknown_node` when the node is not registered."""
    return registered(items.read_state(key, table.get(keys.node_state(key)))).head


def registered(state: NodeState) -> NodeState:
    """Return the state of a registered node. Raises Rejected `unknown_node` for any other."""
    if not state.registered:
        raise Rejected("unknown_node", f"{state.key.stream} is not registered; `faultbridge node list` shows the nodes")
    return state


def query_all(
    table: Table,
    pk: str,
    *,
    prefix: str = "",
    after: str | None = None,
    up_to: str | None = None,
    index: Index | None = None,
    page_size: int | None = None,
    newest_first: bool = False,
) -> Iterator[Item]:
    """Read a query to its end, at most `page_size` items a request, each page only when needed.

    `newest_first` reads it in descending order of the sort key.
    """
    start = None
    while True:
        page = table.query(
            pk,
            prefix=prefix,
            after=after,
            up_to=up_to,
            index=index,
            start=start,
            limit=page_size,
            newest_first=newest_first,
        )
        yield from page.items
        start = page.next
        if start is None:
            return
