"""Heartbeat records: stores the heartbeats of one batch, and reads the health snapshots stored with earlier ones.

Records whose heartbeats or snapshots cannot be stored or read go back to the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from faultbridge.domain.nodes import NodeKey
from faultbridge.ingest.caches import NodeCache
from faultbridge.ingest.heartbeat_log import HeartbeatLog
from faultbridge.ingest.outcomes import GiveBackReason, IngestResult, process_isolated
from faultbridge.ingest.record_reader import Delivery, RecordPart
from faultbridge.storage.heartbeats import SnapshotTimes


def record_heartbeats(
    log: HeartbeatLog, node_cache: NodeCache, heartbeats: Sequence[tuple[NodeKey, RecordPart]], result: IngestResult
) -> None:
    """Store heartbeats, each with the health snapshots of its node that are only in memory."""

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
    """Return the health snapshots that were stored with heartbeats since the oldest one of a batch, by node.

    A node whose snapshots cannot be read is left out.
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
