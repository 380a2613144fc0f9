"""Verify: detects missing, added and changed timeline entries.

The table alone proves only the absence of accidental damage: a principal that can write the table can also write a
consistent chain. An anchor is an hourly record of where every stream ends, which this principal cannot change.
Comparison with the hashes in anchors (`AnchoredHashes`) therefore also detects a forged chain, up to the latest anchor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Stream
from faultbridge.model.errors import Misconfigured, Rejected, UnknownName
from faultbridge.model.nodes import Head, NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import partition
from faultbridge.record.hash_chain import Break, BreakKind, ChainScan, KnownHashes, StreamSeal, read_seal, table_form
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import node_names, query_all, registered

__all__ = ["AnchoredHashes", "Break", "BreakKind", "Verified", "Verify"]


UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, Misconfigured)
"""The errors that can occur when a damaged item is read."""


class AnchoredHashes(Struct, frozen=True):
    """The hashes of a cluster's entries that are stored in the vault, by stream, epoch and sequence.

    The vault is a locked S3 bucket. `known` contains the hashes from anchors (hourly records of where each stream ends)
    and from sealed manifests (lists of the entries of a day). `sealed` contains only the hashes from sealed manifests.
    `recovered` contains the epochs that `faultbridge recover` started. `breaks` contains the defects of the objects in
    the vault. `anchors` is the number of anchors and sealed manifests that were read.
    """

    known: Mapping[str, KnownHashes] = field(default_factory=dict)
    sealed: Mapping[str, KnownHashes] = field(default_factory=dict)
    recovered: frozenset[int] = frozenset()
    breaks: tuple[Break, ...] = ()
    anchors: int = 0

    def of(self, stream: str) -> KnownHashes:
        """Return the hashes in `known` of the entries of one stream."""
        return self.known.get(stream, {})


def row_break(stream: str, key: Key, detail: str) -> Break:
    """Return the defect (break) of a table item that contradicts the entries or the state of its stream."""
    name = f"{key.pk} {key.sk}"
    return Break(stream, 0, 0, BreakKind.ROW, f"{name}: {detail}", name)


class StreamVerification(Struct):
    """Verifies one stream of entries; `entries` is the number of entries read.

    `anchored` are the hashes in the vault with which the entries are compared. If it is None, only the table is
    checked.
    """

    table: Table
    stream: Stream
    anchored: AnchoredHashes | None
    entries: int = 0
    _read_to: str | None = None

    def breaks(self) -> list[Break]:
        """Return the defects (breaks) of the stream.

        An unregistered node raises Rejected `unknown_node`.
        """
        key = keys.stream_anchor(partition(self.stream))
        while True:
            stored = self.table.get(key)
            self.entries, self._read_to = 0, None
            found = self._breaks(key, stored)
            # The seal decides which entries may expire, so breaks count only while it does not move.
            if not found or self.table.get(key) == stored:
                return found

    def _breaks(self, key: Key, stored: Item | None) -> list[Break]:
        found: list[Break] = []
        try:
            seal = read_seal(stored)
        except Rejected as error:
            seal = StreamSeal()
            found.append(row_break(self.stream.name, key, error.detail))
        anchored = self.anchored or AnchoredHashes()
        if self.anchored is not None and seal.missing_to > (0, 0):
            found += _check_seal(self.stream, seal.head, anchored.sealed.get(self.stream.name, {}))
        scan = ChainScan(
            self.stream,
            table_form(self._shard()),
            seal=seal,
            known=anchored.of(self.stream.name),
            recovered=anchored.recovered,
        )
        found += self._scan(scan, None)
        return found + self._check_state(scan)

    def _check_state(self, scan: ChainScan) -> list[Break]:
        """Check that the stored state of a node or cluster ends where its entries end."""
        key = _state_key(self.stream)
        # Entries and head are committed together, so a head read now is not older than any entry read before.
        stored = self.table.get(key)
        try:
            head = self._head(stored)
        except UNREADABLE as error:
            return [row_break(self.stream.name, key, f"the state cannot be read: {error}")]
        late = [] if scan.has_reached(head) else self._scan(scan, head)
        return [*late, *scan.check_head(head), *scan.check_known()]

    def _scan(self, scan: ChainScan, up_to: Head | None) -> list[Break]:
        found: list[Break] = []
        for item in query_all(self.table, partition(self.stream), prefix=keys.ENTRY, after=self._read_to):
            self.entries += 1
            found += scan.check(item)
            self._read_to = str(item["sk"])
            if up_to is not None and scan.has_reached(up_to):
                break
        return found

    def _shard(self) -> int:
        """Return the shard of the stream's node; 0 for a cluster's stream or a state that cannot be read.

        `_check_state` reports a state that cannot be read. An unregistered node raises Rejected `unknown_node`.
        """
        if self.stream.node is None:
            return 0
        try:
            return self._node(self.table.get(_state_key(self.stream))).shard
        except UNREADABLE:
            return 0

    def _head(self, stored: Item | None) -> Head:
        if self.stream.node is None:
            return items.read_cluster(self.stream.cluster, stored).head
        return self._node(stored).head

    def _node(self, stored: Item | None) -> NodeState:
        return registered(items.read_state(NodeKey(self.stream.cluster, str(self.stream.node)), stored))


def _state_key(stream: Stream) -> Key:
    if stream.node is None:
        return keys.cluster_state(stream.cluster)
    return keys.node_state(NodeKey(stream.cluster, stream.node))


def _check_seal(stream: Stream, start: Head, sealed: KnownHashes) -> list[Break]:
    known = sealed.get((start.epoch, start.sequence))
    if known is not None and known.hash == start.hash:
        return []
    detail = "the table marks the stream as sealed up to this entry, but no sealed manifest does"
    return [Break(stream.name, start.epoch, start.sequence, BreakKind.ANCHOR, detail)]


class Verified(Struct):
    """The result of a verification: the number of streams and entries read, and the defects found."""

    streams: int = 0
    entries: int = 0
    breaks: list[Break] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Return whether the verification found no defect."""
        return not self.breaks


class Verify(Struct, frozen=True):
    """Verifies the entry streams of a cluster in the table."""

    table: Table
    stack: Stack

    def __call__(self, cluster: str, node: str | None = None, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify one node's stream, or all streams of a cluster if no node is given.

        `anchored` are the hashes in the vault with which the entries are compared. If it is None, only the table is
        checked. Raises Rejected `unknown_cluster` or `unknown_node` if the given cluster or node is not registered.
        """
        verified = Verified()
        for _ in self.stream_by_stream(cluster, node, verified, anchored):
            pass
        return verified

    def stream_by_stream(
        self, cluster: str, node: str | None, verified: Verified, anchored: AnchoredHashes | None = None
    ) -> Iterator[str]:
        """Verify each stream, add its result to `verified`, and yield the name of the finished stream.

        If `node` is None, all streams of the cluster are verified. `anchored` are the hashes in the vault, or None if
        only the table is checked. Raises Rejected `unknown_cluster` or `unknown_node` if the given cluster or node is
        not registered.
        """
        key = keys.cluster_config(cluster)
        stored = self.table.get(key)
        if stored is None:
            raise UnknownName("cluster", cluster)
        verified.breaks += anchored.breaks if anchored else ()
        config, names = items.read_config(stored), set[str]()
        if stored.get("version") != config.version:
            verified.breaks.append(row_break(cluster, key, "version: the registration has another version"))
        for name in [node] if node else [None, *node_names(self.table, config)]:
            names.add(self.stack.stream(cluster, name).name)
            try:
                self._verify(config, name, verified, anchored)
            except Rejected as error:
                if name == node:
                    raise
                state = keys.node_state(NodeKey(cluster, str(name)))
                verified.breaks.append(row_break(f"{cluster}/{name}", state, f"no state: {error.detail}"))
            yield self.stack.stream(cluster, name).name
        if node is None:
            verified.breaks += _missing_streams(anchored, names) if anchored else ()

    def cluster_stream(self, cluster: str, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify only the cluster's own stream."""
        verified = Verified()
        self._verify(ClusterConfig(cluster), None, verified, anchored)
        return verified

    def _verify(
        self, config: ClusterConfig, node: str | None, verified: Verified, anchored: AnchoredHashes | None
    ) -> None:
        one = StreamVerification(self.table, self.stack.stream(config.cluster, node), anchored)
        verified.breaks += one.breaks()
        verified.streams += 1
        verified.entries += one.entries


def _missing_streams(anchored: AnchoredHashes, names: set[str]) -> list[Break]:
    return [
        Break(name, *min(known), BreakKind.ANCHOR, f"{known[min(known)].anchor} recorded a stream that is missing")
        for name, known in sorted(anchored.known.items())
        if known and name not in names
    ]
