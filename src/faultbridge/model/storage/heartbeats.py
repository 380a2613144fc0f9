"""Heartbeats in the table: one item for each ingest batch, and the last heartbeat of each node.

- The item of a batch is written once and expires. It also contains the times of those health snapshots that are not
  stored with the state of their node. A worker that receives a snapshot with a fault reads these times to find out
  whether a later snapshot has already arrived.
- The sweep reads new batches and updates the last heartbeats. One compressed item contains the last heartbeats of all
  nodes of one shard of a cluster, because DynamoDB charges for each item and its size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from hashlib import sha256

from msgspec import Struct

from faultbridge.model.storage import items
from faultbridge.model.storage.codec import pack
from faultbridge.model.storage.writes import Absent, Equals, Item, Key, Put
from faultbridge.model.times import from_milliseconds, from_text, to_milliseconds, to_text

BATCH, LAST = "BATCH#", "LAST#"
KEEP_BATCHES = timedelta(hours=3)
"""A batch expires after this time. The sweep has read it within a minute; snapshots may be delivered later."""

SnapshotTimes = Mapping[str, datetime]
"""The times of the last health snapshots of one node, by the key of their reporter."""

NONE: Mapping[str, SnapshotTimes] = {}


class LastHeartbeats(Struct, frozen=True):
    """The last heartbeats of the nodes of one shard, from all batches written before `read_to`.

    `silent` are the nodes whose missing heartbeats were reported or need no report. `version` is 0 before the first
    write.
    """

    shard: int
    read_to: datetime
    last: Mapping[str, datetime]
    silent: frozenset[str] = frozenset()
    version: int = 0


class _Content(Struct, frozen=True):
    last: dict[str, int]
    silent: Collection[str]


def partition(cluster: str) -> str:
    """Return the table partition that stores the heartbeats of a cluster."""
    return f"CLUSTER#{cluster}#HEARTBEATS"


def batch_position(written_at: datetime) -> str:
    """Return the start of the sort key of a heartbeat batch; later batches have greater sort keys.

    A query for keys after this one finds the batches that were written at `written_at` or later.
    """
    return f"{BATCH}{to_text(written_at)}"


def batch_put(
    cluster: str, heartbeats: Mapping[str, datetime], now: datetime, snapshots: Mapping[str, SnapshotTimes] = NONE
) -> Put:
    """Return the table write of one batch of heartbeats.

    `heartbeats` maps each node to the time at which the queue received its heartbeat. `snapshots` maps some of these
    nodes to the times of their health snapshots. To save space, these are stored as differences from the heartbeat's
    time.
    """
    content = {"heartbeats": pack({node: to_milliseconds(at) for node, at in sorted(heartbeats.items())})}
    differences = {
        node: {key: to_milliseconds(heartbeats[node]) - to_milliseconds(at) for key, at in sorted(times.items())}
        for node, times in sorted(snapshots.items())
    }
    if differences:
        content["snapshots"] = pack(differences)
    name = sha256(b"".join(content.values())).hexdigest()[:12]
    expires = int((now + KEEP_BATCHES).timestamp())
    key = Key(partition(cluster), f"{batch_position(now)}#{name}")
    return Put(items.item(key, now, {**content, "expires_at": expires}))


def read_batch(row: Item) -> dict[str, datetime]:
    """Return the heartbeat times of one batch by node."""
    times = items.stored_value(dict[str, int], row, "heartbeats")
    return {str(node): from_milliseconds(at) for node, at in times.items()}


def read_snapshots(row: Item) -> dict[str, dict[str, datetime]]:
    """Return the health snapshot times of one batch by node and reporter.

    The result is empty if the batch contains no such times.
    """
    received = read_batch(row)
    stored = items.stored_value(dict[str, dict[str, int]], row, "snapshots") if "snapshots" in row else {}
    return {
        str(node): {str(key): received[node] - timedelta(milliseconds=before) for key, before in times.items()}
        for node, times in stored.items()
    }


def last_key(cluster: str, shard: int) -> Key:
    """Return the table key of the last heartbeats of one shard of a cluster."""
    return Key(partition(cluster), f"{LAST}{shard:03d}")


def last_put(cluster: str, heartbeats: LastHeartbeats, now: datetime) -> Put:
    """Return the write of the last heartbeats of one shard.

    The write fails if another sweep has written the item since the caller read it.
    """
    times = {node: to_milliseconds(at) for node, at in sorted(heartbeats.last.items())}
    content: Item = {
        "version": heartbeats.version + 1,
        "read_to": to_text(heartbeats.read_to),
        "last": pack(_Content(times, sorted(heartbeats.silent))),
    }
    unchanged = Equals("version", heartbeats.version) if heartbeats.version else Absent()
    return Put(items.item(last_key(cluster, heartbeats.shard), now, content), when=unchanged)


def read_last(row: Item) -> LastHeartbeats:
    """Return the last heartbeats of one shard that a table item stores."""
    content = items.stored_value(_Content, row, "last")
    last = {node: from_milliseconds(at) for node, at in content.last.items()}
    shard, version = int(str(row["sk"]).removeprefix(LAST)), int(str(row["version"]))
    return LastHeartbeats(shard, from_text(str(row["read_to"])), last, frozenset(content.silent), version)
