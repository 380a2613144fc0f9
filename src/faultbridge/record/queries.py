"""Queries: reads all pages of a query, a cluster's rows in all shards, and a stream's time window."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.jobs import Job
from faultbridge.model.cluster.state import Control
from faultbridge.model.errors import UnknownName
from faultbridge.model.nodes import Head, NodeKey, NodeState
from faultbridge.model.storage import items, jobs, keys
from faultbridge.model.storage.node_rows import HeldCase, QueuedCase, RosterNode, UnhealthyNode
from faultbridge.model.storage.projections import HELD, QUEUE, UNHEALTHY
from faultbridge.model.storage.writes import Index, Item
from faultbridge.model.times import to_text

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Table

SKEW = timedelta(minutes=5)
"""Largest difference between the clocks of two writers. Entries of one stream may be out of time order by this much."""

Found = Iterator[tuple[Item, str]]
"""Entry items in the order of a timeline, each with its position."""


class ReadOrder(Struct, frozen=True):
    """How entries are read: after which position, how many in one request, and oldest or newest first."""

    after: str | None = None
    page_size: int | None = None
    newest_first: bool = False


Span = tuple[datetime | None, datetime | None]
"""The start (inclusive) and the end (exclusive) of a time window; None means no limit on that side."""


def cluster_config(table: Table, cluster: str) -> ClusterConfig:
    """Return the configuration of a cluster; an unregistered cluster raises Rejected `unknown_cluster`."""
    found = table.get(keys.cluster_config(cluster))
    if found is None:
        raise UnknownName("cluster", cluster)
    return items.read_config(found)


def cluster_control(table: Table, cluster: str) -> Control:
    """Return the controls of a cluster."""
    return items.read_control(cluster, table.get(keys.cluster_control(cluster)))


def shard_rows(table: Table, config: ClusterConfig, prefix: str) -> Iterator[Item]:
    """Read the rows in a cluster's shards with this prefix, shard by shard and consistently."""
    for shard in range(config.shards):
        yield from query_all(table, keys.shard_partition(config.cluster, shard), prefix=prefix)


def unhealthy_nodes(table: Table, config: ClusterConfig) -> tuple[UnhealthyNode, ...]:
    """Return the registered nodes of a cluster that are neither healthy nor retired."""
    return tuple(items.stored_value(UnhealthyNode, row) for row in shard_rows(table, config, UNHEALTHY))


def queued_cases(table: Table, config: ClusterConfig) -> tuple[QueuedCase, ...]:
    """Return the cases in the repair queue of a cluster, in the order of each shard."""
    rows = shard_rows(table, config, QUEUE)
    return tuple(items.stored_value(QueuedCase, row).placed_by(config) for row in rows)


def held_cases(table: Table, config: ClusterConfig) -> tuple[HeldCase, ...]:
    """Return the cases of a cluster that wait for an incident, the oldest case first."""
    found = (items.stored_value(HeldCase, row) for row in shard_rows(table, config, HELD))
    return tuple(sorted(found, key=lambda one: (one.opened, one.case)))


def node_names(table: Table, config: ClusterConfig) -> Iterator[str]:
    """Return the names of a cluster's registered nodes, including retired nodes."""
    return (str(row["sk"]).removeprefix(keys.NODE_ROW) for row in shard_rows(table, config, keys.NODE_ROW))


def roster(table: Table, config: ClusterConfig) -> Iterator[RosterNode]:
    """Yield the registered nodes of a cluster, including retired nodes."""
    return (items.stored_value(RosterNode, row) for row in shard_rows(table, config, keys.NODE_ROW))


def nodes_in_use(table: Table, config: ClusterConfig) -> Iterator[RosterNode]:
    """Yield the registered nodes of a cluster, except retired nodes."""
    return (one for one in roster(table, config) if not one.retired)


def node_head(table: Table, key: NodeKey) -> Head:
    """Return the end of a node's entry stream; an unregistered node raises Rejected `unknown_node`."""
    return registered(items.read_state(key, table.get(keys.node_state(key)))).head


def registered(state: NodeState) -> NodeState:
    """Return the state of a registered node; any other node raises Rejected `unknown_node`."""
    if not state.registered:
        raise UnknownName("node", state.key.node, state.key.cluster)
    return state


def find_job(table: Table, cluster: str, job_id: str) -> Job | None:
    """Return a job, or None if the table has no item of it."""
    found = table.get(jobs.job_key(cluster, job_id))
    return jobs.read_job(found) if found else None


def recorded_job(table: Table, cluster: str, job_id: str) -> Job:
    """Return a job; raises Rejected `unknown_job` if the table has no item of it."""
    found = find_job(table, cluster, job_id)
    if found is None:
        raise UnknownName("job", job_id, cluster)
    return found


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
    """Read all pages of a query, each only when it is needed, with at most `page_size` items per request."""
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


def newest_in_window(table: Table, pk: str, head: Head, window: Span, limit: int) -> tuple[tuple[Item, ...], bool]:
    """Return the newest entries of a window, at most `limit`, oldest first, and whether there are more."""
    since, until = window
    after = last_before(table, pk, head, since - SKEW) if since else None
    up_to = end_before(table, pk, head, until + SKEW) if until else None
    if until and up_to is None:
        return (), False
    found = query_all(table, pk, prefix=keys.ENTRY, after=after, up_to=up_to, page_size=limit + 1, newest_first=True)
    newest = tuple(islice(_within(found, window), limit + 1))
    return newest[:limit][::-1], len(newest) > limit


def _within(found: Iterator[Item], window: Span) -> Iterator[Item]:
    since, until = (to_text(one) if one else None for one in window)
    for item in found:
        recorded = str(item["recorded_at"])
        if (since is None or recorded >= since) and (until is None or recorded < until):
            yield item


def end_before(table: Table, pk: str, head: Head, until: datetime) -> str | None:
    """Return the key up to which entries were recorded before a time (plus `SKEW`), None if there are none."""
    found = last_before(table, pk, head, until)
    return keys.entry(pk, head.epoch, 0).sk if found is None and head.epoch > 1 else found


def last_before(table: Table, pk: str, head: Head, since: datetime) -> str | None:
    """Return the key of the epoch's last entry before a time; an expired entry counts as before it."""
    low, high, instant = 0, head.sequence, to_text(since)
    while low < high:
        middle = (low + high + 1) // 2
        found = table.get(keys.entry(pk, head.epoch, middle))
        if found is None or str(found["recorded_at"]) < instant:
            low = middle
        else:
            high = middle - 1
    return keys.entry(pk, head.epoch, low).sk if low else None
