"""Coverage: reads the last heartbeat of each node, and what the sweep found about the reports of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.cluster.coverage import Coverage
from faultbridge.model.storage import heartbeats as stored
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.heartbeats import LastHeartbeats
from faultbridge.model.storage.writes import Item
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all

STORED_EVERY = timedelta(minutes=5)
"""The sweep stores the last heartbeats again after this time; until then, reads add the newer batches."""

OVERLAP = timedelta(minutes=2)
"""Each read starts this long before the last read, because a slow writer may have added a batch there."""


class Heartbeats(Struct, frozen=True):
    """The last heartbeat of each node of a cluster, and the shards that a sweep stored."""

    last: Mapping[str, datetime] = field(default_factory=dict)
    shards: tuple[LastHeartbeats, ...] = ()


def read_heartbeats(table: Table, cluster: str, now: datetime) -> Heartbeats:
    """Return the last heartbeats of a cluster, from the stored ones and the batches written afterwards."""
    partition = stored.partition(cluster)
    shards = tuple(stored.read_last(row) for row in query_all(table, partition, prefix=stored.LAST))
    last: dict[str, datetime] = {}
    for shard in shards:
        add_latest(last, shard.last)
    oldest = now - stored.KEEP_BATCHES
    since = max(oldest, min((shard.read_to for shard in shards), default=oldest) - OVERLAP)
    for row in query_all(table, partition, after=stored.batch_position(since), up_to=stored.LAST):
        add_latest(last, stored.read_batch(row))
    return Heartbeats(last, shards)


def recent_heartbeats(table: Table, cluster: str, now: datetime) -> dict[str, datetime]:
    """Return the last heartbeats of a cluster with one query; those of the last minutes miss if no sweep runs."""
    last: dict[str, datetime] = {}
    after = stored.batch_position(now - STORED_EVERY - OVERLAP)
    for row in query_all(table, stored.partition(cluster), after=after):
        is_batch = str(row["sk"]).startswith(stored.BATCH)
        add_latest(last, stored.read_batch(row) if is_batch else stored.read_last(row).last)
    return last


def add_latest(last: dict[str, datetime], others: Mapping[str, datetime]) -> None:
    """Add the times of `others` that are later than those in `last`."""
    for name, at in others.items():
        if name not in last or at > last[name]:
            last[name] = at


def read_coverage(row: Item | None) -> Coverage | None:
    """Return the coverage that a table item stores; None before the first sweep."""
    return items.stored_value(Coverage, row, "coverage") if row else None


def coverage_of(table: Table, cluster: str) -> Coverage | None:
    """Return what the sweep last found about the reports of a cluster; None before the first sweep."""
    return read_coverage(table.get(keys.cluster_coverage(cluster)))
