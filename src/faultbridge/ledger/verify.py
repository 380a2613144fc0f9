"""Verify: checks that no entry of a stream is missing, added or changed.

The table alone proves only the absence of accidental damage: a principal that can write the table can also write a
consistent chain. The hashes in anchors (`AnchoredHashes`), which such a principal cannot change, prove the rest, up
to the latest hourly anchor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.hash_chain import Break, BreakKind, ChainScan, KnownHashes
from faultbridge.ledger.queries import node_head, node_names, query_all
from faultbridge.ledger.streams import partition
from faultbridge.ports import Table
from faultbridge.storage import items, keys

__all__ = ["AnchoredHashes", "Break", "BreakKind", "Verified", "Verify"]


@dataclass(slots=True)
class Verified:
    """Result of a verification: the number of streams and entries read, and the breaks in reading order."""

    streams: int = 0
    entries: int = 0
    breaks: list[Break] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Return whether no break was found."""
        return not self.breaks


@dataclass(frozen=True, slots=True)
class AnchoredHashes:
    """The hashes of one cluster's streams that the vault holds, by stream, epoch and sequence.

    `known` comes from anchors and sealed manifests, `sealed` from sealed manifests only. `recovered` holds the epochs
    that `faultbridge recover` began, `breaks` what is wrong with the objects of the vault.
    """

    known: Mapping[str, KnownHashes] = field(default_factory=dict)
    sealed: Mapping[str, KnownHashes] = field(default_factory=dict)
    recovered: frozenset[int] = frozenset()
    breaks: tuple[Break, ...] = ()
    anchors: int = 0

    def of(self, stream: str) -> KnownHashes:
        """Return the known hashes of one stream."""
        return self.known.get(stream, {})


@dataclass(frozen=True, slots=True)
class Verify:
    """Verifies the streams of a cluster in the table.

    A stream whose sealed entries may have expired is verified from its seal, every other stream from its first entry.
    """

    table: Table
    stack: Stack

    def __call__(self, cluster: str, node: str | None = None, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify one node's stream, or the cluster's own stream and the streams of all its nodes."""
        verified = Verified()
        for _ in self.stream_by_stream(cluster, node, verified, anchored):
            pass
        return verified

    def stream_by_stream(
        self, cluster: str, node: str | None, verified: Verified, anchored: AnchoredHashes | None = None
    ) -> Iterator[str]:
        """Verify stream by stream, add the findings to `verified`, and yield the name of each finished stream."""
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected(
                "unknown_cluster", f"{cluster} is not registered; `faultbridge cluster list` shows the names"
            )
        verified.breaks += anchored.breaks if anchored else ()
        names: set[str] = set()
        for name in [node] if node else [None, *node_names(self.table, items.read_config(found))]:
            stream = self.stack.stream(cluster, name)
            names.add(stream.name)
            self._verify(stream, verified, anchored)
            yield stream.name
        if anchored is not None and node is None:
            verified.breaks += _missing_streams(anchored, names)

    def cluster_stream(self, cluster: str, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify only the cluster's own stream."""
        verified = Verified()
        self._verify(self.stack.stream(cluster), verified, anchored)
        return verified

    def _verify(self, stream: Stream, verified: Verified, anchored: AnchoredHashes | None) -> None:
        verified.streams += 1
        start = self._sealed(stream)
        if anchored is not None and start is not None:
            verified.breaks += _check_seal(stream, start, anchored.sealed.get(stream.name, {}))
        anchored = anchored or AnchoredHashes()
        scan = ChainScan(stream, start, anchored.of(stream.name), anchored.recovered)
        after = keys.entry(partition(stream), start.epoch, start.sequence).sk if start else None
        after = self._scan(stream, scan, verified, after, None)
        # Entries and head are committed together, so a head read now is not older than any entry read before.
        head = self._head(stream)
        if not scan.has_reached(head):
            self._scan(stream, scan, verified, after, head)
        verified.breaks += [*scan.check_head(head), *scan.check_known()]

    def _scan(
        self, stream: Stream, scan: ChainScan, verified: Verified, after: str | None, up_to: Head | None
    ) -> str | None:
        """Check the entries after a sort key, at most to a head, and return the last sort key."""
        for item in query_all(self.table, partition(stream), prefix=keys.ENTRY, after=after):
            verified.entries += 1
            verified.breaks += scan.check(item)
            after = str(item["sk"])
            if up_to is not None and scan.has_reached(up_to):
                break
        return after

    def _sealed(self, stream: Stream) -> Head | None:
        """Return the last sealed entry if sealed entries may expire. The archive proves the entries up to it."""
        found = self.table.get(keys.stream_anchor(partition(stream)))
        if found is None or not found.get("expiring"):
            return None
        return Head(epoch=int(str(found["epoch"])), sequence=int(str(found["seq"])), hash=str(found["hash"]))

    def _head(self, stream: Stream) -> Head:
        if stream.node is None:
            return items.read_cluster(stream.cluster, self.table.get(keys.cluster_state(stream.cluster))).head
        return node_head(self.table, NodeKey(stream.cluster, stream.node))


def _check_seal(stream: Stream, start: Head, sealed: KnownHashes) -> list[Break]:
    """Check the seal in the table against the sealed manifests, because the table may be forged."""
    known = sealed.get((start.epoch, start.sequence))
    if known is not None and known.hash == start.hash:
        return []
    detail = "the table marks the stream as sealed up to this entry, but no sealed manifest does"
    return [Break(stream.name, start.epoch, start.sequence, BreakKind.ANCHOR, detail)]


def _missing_streams(anchored: AnchoredHashes, names: set[str]) -> list[Break]:
    return [
        Break(name, *min(known), BreakKind.ANCHOR, f"{known[min(known)].anchor} recorded a stream that is missing")
        for name, known in sorted(anchored.known.items())
        if known and name not in names
    ]
