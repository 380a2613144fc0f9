"""Heartbeat log: writes the heartbeats of each batch, and keeps the last heartbeat of each node.

- Ingest skips a heartbeat if the same process has just written a heartbeat of the node. Each written heartbeat includes
  the times of the node's health snapshots that are only in memory.
- Each sweep reads the stored last heartbeats, and the batches that were written since then. The sweep stores the result
  only every five minutes, or when a node becomes silent or returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.cluster.config import ClusterConfig, shard_of
from faultbridge.model.errors import Conflict
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import heartbeats as stored
from faultbridge.model.storage.heartbeats import LastHeartbeats, SnapshotTimes
from faultbridge.model.storage.writes import Delete
from faultbridge.model.values import replace
from faultbridge.record.coverage import OVERLAP, STORED_EVERY, add_latest, read_heartbeats
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.serve.ingest.caches import NodeCache
from faultbridge.serve.ingest.outcomes import GiveBackReason, IngestResult, process_isolated
from faultbridge.serve.ingest.record_reader import Delivery, RecordPart

WRITE_AFTER = 0.2
"""A heartbeat is written if the last written one is older than this share of the timeout."""

FORGET_AFTER = timedelta(days=7)
"""A silent node is forgotten after this time; its next heartbeat adds it again."""

MAX_REMEMBERED = 50_000

NO_SNAPSHOTS: Mapping[NodeKey, SnapshotTimes] = {}


class ClusterHeartbeats(Struct, frozen=True):
    """The last heartbeat of each node of one cluster, as one sweep read them.

    `silent` are the nodes whose missing heartbeats were reported, or need no report because the node is not in service.
    `returned` are the nodes that were silent and have sent a heartbeat since then.
    """

    config: ClusterConfig
    read_at: datetime
    last: Mapping[str, datetime]
    silent: frozenset[str]
    returned: tuple[str, ...]
    stored: tuple[LastHeartbeats, ...] = ()

    def overdue(self, timeout: timedelta) -> dict[NodeKey, datetime]:
        """Return, by node, the last heartbeats that are at least 1.2 timeouts old. Silent nodes are left out."""
        latest = self.read_at - timeout * (1 + WRITE_AFTER)
        watched = ((node, at) for node, at in self.last.items() if node not in self.silent)
        return {NodeKey(self.config.cluster, node): at for node, at in sorted(watched) if at <= latest}

    def to_check_again(self, number: int) -> dict[NodeKey, datetime]:
        """Return the last heartbeats of at most `number` silent nodes; each minute, the next nodes are chosen."""
        silent = sorted(self.silent & self.last.keys())
        turns = max(-(-len(silent) // number), 1)
        mine = silent[int(self.read_at.timestamp()) // 60 % turns :: turns]
        return {NodeKey(self.config.cluster, node): self.last[node] for node in mine}

    @property
    def newest(self) -> datetime | None:
        """Return when the queue received the cluster's latest heartbeat; None if there is none."""
        return max(self.last.values(), default=None)

    def before_return(self, nodes: Collection[str]) -> ClusterHeartbeats:
        """Return a copy in which `nodes` are silent again, each with its stored last heartbeat.

        If the copy is stored, the next sweep retries to end the faults of `nodes`. Only nodes stored as silent change.
        """
        silent = {
            node: shard.last[node] for shard in self.stored for node in shard.silent.intersection(nodes, shard.last)
        }
        return replace(self, last={**self.last, **silent}, silent=self.silent.union(silent))


class HeartbeatLog(Struct, frozen=True):
    """Writes the heartbeats of batches, and reads and stores the last heartbeat of each node."""

    table: Table
    clock: Clock
    rulebook: Rulebook
    _written: dict[NodeKey, datetime] = field(default_factory=dict)

    def record(
        self, heartbeats: Mapping[NodeKey, datetime], snapshots: Mapping[NodeKey, SnapshotTimes] = NO_SNAPSHOTS
    ) -> None:
        """Write the heartbeats that `must_write` selects, with the snapshot times of their nodes."""
        by_cluster: dict[str, dict[str, datetime]] = {}
        for node, at in heartbeats.items():
            if self.must_write(node, at):
                by_cluster.setdefault(node.cluster, {})[node.node] = at
        for cluster, some in by_cluster.items():
            times = {node: found for node in some if (found := snapshots.get(NodeKey(cluster, node)))}
            self.table.write(stored.batch_put(cluster, some, self.clock.now(), times))
            self._remember((NodeKey(cluster, node), at) for node, at in some.items())

    def snapshots_since(self, cluster: str, at: datetime) -> Mapping[str, SnapshotTimes]:
        """Return, by node, the snapshot times stored with heartbeats since about two minutes before `at`."""
        since = max(self.clock.now() - stored.KEEP_BATCHES, at - OVERLAP)
        last: dict[str, dict[str, datetime]] = {}
        partition = stored.partition(cluster)
        for row in query_all(self.table, partition, after=stored.batch_position(since), up_to=stored.LAST):
            for node, times in stored.read_snapshots(row).items():
                add_latest(last.setdefault(node, {}), times)
        return last

    def read(self, config: ClusterConfig) -> ClusterHeartbeats:
        """Return the last heartbeats of a cluster, from the stored ones and the batches written afterwards."""
        now = self.clock.now()
        found = read_heartbeats(self.table, config.cluster, now)
        last, shards = found.last, found.shards
        stored_last: dict[str, datetime] = {}
        for shard in shards:
            add_latest(stored_last, shard.last)
        silent_since = {node: stored_last[node] for shard in shards for node in shard.silent if node in stored_last}
        returned = tuple(sorted(node for node, at in silent_since.items() if last[node] > at))
        return ClusterHeartbeats(config, now, last, frozenset(silent_since) - set(returned), returned, shards)

    def store(self, read: ClusterHeartbeats, silent: Collection[str] = ()) -> None:
        """Store the last heartbeats of a cluster, for each shard whose stored heartbeats are outdated.

        They are outdated if they are missing, five minutes old, or the silent nodes changed. `silent` are further nodes
        to store as silent. Nodes silent for seven days, and shards that no longer exist, are dropped.
        """
        all_silent = read.silent.union(silent)
        kept = {
            node: at for node, at in read.last.items() if node not in all_silent or read.read_at - at < FORGET_AFTER
        }
        before = {shard.shard: shard for shard in read.stored}
        for number, nodes in sorted(_by_shard(kept, read.config.shards).items()):
            after = LastHeartbeats(
                number,
                read.read_at,
                {node: kept[node] for node in nodes},
                all_silent.intersection(nodes),
                before[number].version if number in before else 0,
            )
            if _must_store(before.get(number), after):
                self._store(read.config.cluster, after)
        for number in sorted(set(before).difference(range(read.config.shards))):
            self.table.write(Delete(stored.last_key(read.config.cluster, number)))

    def _store(self, cluster: str, heartbeats: LastHeartbeats) -> None:
        try:
            self.table.write(stored.last_put(cluster, heartbeats, self.clock.now()))
        except Conflict as conflict:
            reason = "another sweep stored them"
            log_cause("last_heartbeats_not_stored", reason=reason, cluster=cluster, error=str(conflict))

    def must_write(self, node: NodeKey, at: datetime) -> bool:
        """Return whether to write the heartbeat that was received from a node at the time `at`.

        False if this process wrote a heartbeat of the node that arrived at most 0.2 timeouts before `at`, or later.
        """
        before = self._written.get(node)
        timeout = rules_of(self.rulebook, node.cluster).policy.limits.heartbeat_timeout
        return before is None or at - before > timeout * WRITE_AFTER

    def _remember(self, written: Iterable[tuple[NodeKey, datetime]]) -> None:
        for node, at in written:
            if len(self._written) >= MAX_REMEMBERED:
                self._written.clear()
            self._written[node] = at


def _by_shard(nodes: Iterable[str], shards: int) -> Mapping[int, Sequence[str]]:
    by_shard: dict[int, list[str]] = {number: [] for number in range(shards)}
    for node in nodes:
        by_shard[shard_of(node, shards)].append(node)
    return by_shard


def _must_store(before: LastHeartbeats | None, after: LastHeartbeats) -> bool:
    if before is None:
        return bool(after.last)
    return after.silent != before.silent or after.read_to - before.read_to >= STORED_EVERY


def record_heartbeats(
    log: HeartbeatLog, node_cache: NodeCache, heartbeats: Sequence[tuple[NodeKey, RecordPart]], result: IngestResult
) -> None:
    """Store heartbeats, with snapshot times that are only in memory; failed records go back to the queue."""

    def store(some: Sequence[tuple[NodeKey, RecordPart]]) -> Iterable[None]:
        snapshots = {node: node_cache.unwritten_snapshots(node) for node, _ in some}
        log.record({node: part.record.received_at for node, part in some}, snapshots)
        return ()

    def give_back(failed: Sequence[tuple[NodeKey, RecordPart]], error: Exception) -> None:
        for node, part in failed:
            result.give_back(part.delivery, error, GiveBackReason.HEARTBEATS_UNAVAILABLE, node)

    process_isolated(sorted(heartbeats, key=_received_at), store, give_back)


def read_snapshots(
    log: HeartbeatLog,
    oldest: Mapping[NodeKey, datetime],
    deliveries: Mapping[NodeKey, Sequence[Delivery]],
    result: IngestResult,
) -> Mapping[NodeKey, SnapshotTimes]:
    """Return, by node, the times of health snapshots that were stored with heartbeats.

    `oldest` states for each node since when its snapshots are needed. A node whose snapshots cannot be read is not
    included in the result; its `deliveries` go back to the queue.
    """

    def read(nodes: Sequence[NodeKey]) -> Iterator[tuple[NodeKey, SnapshotTimes]]:
        for cluster in sorted({node.cluster for node in nodes}):
            mine = [node for node in nodes if node.cluster == cluster]
            found = log.snapshots_since(cluster, min(oldest[node] for node in mine))
            yield from ((node, found.get(node.node, {})) for node in mine)

    def give_back(failed: Sequence[NodeKey], error: Exception) -> None:
        for node in failed:
            for delivery in deliveries[node]:
                result.give_back(delivery, error, GiveBackReason.STATE_UNAVAILABLE, node)

    return dict(process_isolated(list(oldest), read, give_back))


def _received_at(heartbeat: tuple[NodeKey, RecordPart]) -> datetime:
    return heartbeat[1].record.received_at
