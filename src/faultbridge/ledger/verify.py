"""Verify: nothing is missing from a stream, nothing was added to it, nothing in it was changed.

Alone this proves accidents only: who may write the table may write a chain that fits. What others saw of the hashes
(`Seen`: the anchors, which such a writer cannot reach) proves the rest, up to the last hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.chain import Break, BreakKind, Points, Walk
from faultbridge.ledger.queries import every, rows_of
from faultbridge.ledger.streams import partition
from faultbridge.ports import Table
from faultbridge.storage import items, keys

__all__ = ["Break", "BreakKind", "Seen", "Verified", "Verify"]

ROSTER = "NODE#"


@dataclass(slots=True)
class Verified:
    """How many streams and entries were read, and every break that was found, in the order of reading."""

    streams: int = 0
    entries: int = 0
    breaks: list[Break] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Tell whether no break was found."""
        return not self.breaks


@dataclass(frozen=True, slots=True)
class Seen:
    """What others saw of a cluster: hashes by stream, where each was sealed, the epochs that restores began."""

    points: Mapping[str, Points] = field(default_factory=dict)
    sealed: Mapping[str, Points] = field(default_factory=dict)
    restored: frozenset[int] = frozenset()
    breaks: tuple[Break, ...] = ()
    anchors: int = 0

    def of(self, stream: str) -> Points:
        """Return what was seen of one stream."""
        return self.points.get(stream, {})


@dataclass(frozen=True, slots=True)
class Verify:
    """Walks streams from their first entry, or from where they are sealed and may expire, to their head."""

    table: Table
    stack: Stack

    def __call__(self, cluster: str, node: str | None = None, seen: Seen | None = None) -> Verified:
        """Verify one node, or the cluster's own stream and those of every node on its roster."""
        verified = Verified()
        for _ in self.walk(cluster, node, verified, seen):
            pass
        return verified

    def walk(self, cluster: str, node: str | None, verified: Verified, seen: Seen | None = None) -> Iterator[str]:
        """Verify stream by stream into `verified`, and name each one when it is done."""
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        verified.breaks += seen.breaks if seen else ()
        met: set[str] = set()
        for name in [node] if node else [None, *self._roster(items.read_config(found))]:
            stream = self.stack.stream(cluster, name)
            met.add(stream.name)
            self._stream(stream, verified, seen)
            yield stream.name
        if seen is not None and node is None:
            verified.breaks += _vanished(seen, met)

    def own(self, cluster: str, seen: Seen | None = None) -> Verified:
        """Verify the cluster's own stream alone."""
        verified = Verified()
        self._stream(self.stack.stream(cluster), verified, seen)
        return verified

    def _roster(self, config: ClusterConfig) -> Iterator[str]:
        return (str(row["node"]) for row in rows_of(self.table, config, ROSTER))

    def _stream(self, stream: Stream, verified: Verified, seen: Seen | None) -> None:
        verified.streams += 1
        start = self._sealed(stream)
        points = seen.of(stream.name) if seen else {}
        if seen is not None and start is not None:
            verified.breaks += _unsealed(stream, start, seen.sealed.get(stream.name, {}))
        walk = Walk(stream, start, points, seen.restored if seen else frozenset())
        after = keys.entry(partition(stream), start.epoch, start.sequence).sk if start else None
        after = self._read(stream, walk, verified, after, None)
        # Entries and head are committed together, so a head read now is behind no entry that was read.
        head = self._head(stream)
        if not walk.reached(head):
            self._read(stream, walk, verified, after, head)
        verified.breaks += [*walk.end(head), *walk.unseen()]

    def _read(
        self, stream: Stream, walk: Walk, verified: Verified, after: str | None, up_to: Head | None
    ) -> str | None:
        for item in every(self.table, partition(stream), prefix=keys.ENTRY, after=after):
            verified.entries += 1
            verified.breaks += walk.take(item)
            after = str(item["sk"])
            if up_to is not None and walk.reached(up_to):
                break
        return after

    def _sealed(self, stream: Stream) -> Head | None:
        """Return up to where entries may have expired: what stands before is proven by the archive."""
        found = self.table.get(keys.stream_anchor(partition(stream)))
        if found is None or not found.get("expiring"):
            return None
        return Head(epoch=int(str(found["epoch"])), sequence=int(str(found["seq"])), hash=str(found["hash"]))

    def _head(self, stream: Stream) -> Head:
        if stream.node is None:
            return items.read_cluster(stream.cluster, self.table.get(keys.cluster_state(stream.cluster))).head
        key = NodeKey(stream.cluster, stream.node)
        state = items.read_state(key, self.table.get(keys.node_state(key)))
        if not state.registered:
            raise Rejected("unknown_node", f"{key.stream} is not registered")
        return state.head


def _unsealed(stream: Stream, start: Head, sealed: Points) -> list[Break]:
    """Judge the place from which the walk would begin: the table's word alone is not enough for it."""
    point = sealed.get((start.epoch, start.sequence))
    if point is not None and point.hash == start.hash:
        return []
    said = "the table says that it is sealed up to here, and no sealed manifest says so"
    return [Break(stream.name, start.epoch, start.sequence, BreakKind.ANCHOR, said)]


def _vanished(seen: Seen, met: set[str]) -> list[Break]:
    return [
        Break(name, *min(points), BreakKind.ANCHOR, f"{points[min(points)].anchor} saw a stream that is gone")
        for name, points in sorted(seen.points.items())
        if points and name not in met
    ]
