"""Verify: nothing is missing from a stream, nothing was added to it, nothing in it was changed.

Without an anchor this proves accidents only: who may write the table may write a chain that fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.entries import Stream, chain
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.services.append import Stack
from faultbridge.services.rows import rows_of
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item

ROSTER = "NODE#"


class BreakKind(StrEnum):
    """What is wrong with a stream."""

    GAP = "gap"
    HASH = "hash"
    PLACE = "place"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Break:
    """The place in a stream from which on it cannot be trusted, and what is wrong there."""

    stream: str
    epoch: int
    sequence: int
    kind: BreakKind
    detail: str


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
class Verify:
    """Walks streams from their first entry to their head."""

    table: Table
    stack: Stack

    def __call__(self, cluster: str, node: str | None = None) -> Verified:
        """Verify one node, or the cluster's own stream and those of every seat on its roster."""
        verified = Verified()
        for _ in self.walk(cluster, node, verified):
            pass
        return verified

    def walk(self, cluster: str, node: str | None, verified: Verified) -> Iterator[str]:
        """Verify stream by stream into `verified`, and name each one when it is done."""
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        for name in [node] if node else [None, *self._roster(items.read_config(found))]:
            stream = self.stack.stream(cluster, name)
            self._stream(stream, verified)
            yield stream.name

    def _roster(self, config: ClusterConfig) -> Iterator[str]:
        return (str(row["node"]) for row in rows_of(self.table, config, ROSTER))

    def _head(self, stream: Stream) -> Head:
        if stream.node is None:
            return items.read_cluster(stream.cluster, self.table.get(keys.cluster_state(stream.cluster))).head
        key = NodeKey(stream.cluster, stream.node)
        state = items.read_state(key, self.table.get(keys.node_state(key)))
        if not state.registered:
            raise Rejected("unknown_node", f"{key.stream} is not registered")
        return state.head

    def _stream(self, stream: Stream, verified: Verified) -> None:
        verified.streams += 1
        walk = _Walk(stream)
        self._read(stream, walk, verified, None)
        # Entries and head are committed together, so a head read now is behind no entry that was read.
        head = self._head(stream)
        if not walk.reached(head):
            self._read(stream, walk, verified, head)
        verified.breaks += walk.end(head)

    def _read(self, stream: Stream, walk: _Walk, verified: Verified, upto: Head | None) -> None:
        for item in _entries(self.table, stream, after=walk.last):
            verified.entries += 1
            verified.breaks += walk.take(item)
            if upto is not None and walk.reached(upto):
                return


def _entries(table: Table, stream: Stream, after: str | None) -> Iterator[Item]:
    start = None
    while True:
        page = table.query(_partition(stream), prefix=keys.ENTRY, after=after, start=start)
        yield from page.items
        start = page.next
        if start is None:
            return


def _partition(stream: Stream) -> str:
    if stream.node is None:
        return keys.cluster_partition(stream.cluster)
    return keys.node_partition(NodeKey(stream.cluster, stream.node))


class _Walk:
    """The walk along one stream: what the last entry was, and so what the next must be."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._epoch = 0
        self._sequence = 0
        self._hash = ""
        self.last: str | None = None

    def take(self, item: Item) -> list[Break]:
        """Judge the next entry; afterwards go on from it as it stands, so that one break is told once."""
        epoch, sequence, body = int(str(item["epoch"])), int(str(item["sequence"])), str(item["body"])
        if epoch != self._epoch:
            self._epoch, self._sequence, self._hash = epoch, 0, ""
        expected = self._sequence + 1
        previous = self._hash or self._stream.genesis(epoch)
        breaks: list[Break] = []
        if sequence != expected:
            said = f"the entry after {self._sequence} is {sequence}"
            breaks.append(self._broken(epoch, expected, BreakKind.GAP, said))
        elif chain(previous, body) != item["hash"]:
            breaks.append(self._broken(epoch, sequence, BreakKind.HASH, "the body does not fit the hash before it"))
        breaks += self._misplaced(epoch, sequence, body)
        self._sequence, self._hash, self.last = sequence, str(item["hash"]), str(item["sk"])
        return breaks

    def reached(self, head: Head) -> bool:
        """Tell whether the walk has come as far as the head."""
        return (self._epoch, self._sequence) >= (head.epoch, head.sequence)

    def end(self, head: Head) -> list[Break]:
        """Judge whether the last entry is the one that the state says is the last."""
        if self._sequence != head.sequence or (head.sequence and self._epoch != head.epoch):
            found = f"{self._epoch}/{self._sequence}"
            said = f"the state says that {head.epoch}/{head.sequence} is the last entry, found is {found}"
            return [self._broken(head.epoch, min(self._sequence, head.sequence) + 1, BreakKind.HEAD, said)]
        if self._hash != head.hash:
            return [self._broken(head.epoch, head.sequence, BreakKind.HEAD, "the state names another last hash")]
        return []

    def _misplaced(self, epoch: int, sequence: int, body: str) -> list[Break]:
        metadata = _metadata(body)
        told = {name: metadata.get(name) for name in ("epoch", "sequence", "stream", "event_id")}
        true = {
            "epoch": epoch,
            "sequence": sequence,
            "stream": self._stream.name,
            "event_id": self._stream.event_id(epoch, sequence),
        }
        wrong = [name for name, value in true.items() if told[name] != value]
        if not wrong:
            return []
        return [self._broken(epoch, sequence, BreakKind.PLACE, f"the body says another {', '.join(wrong)}")]

    def _broken(self, epoch: int, sequence: int, kind: BreakKind, detail: str) -> Break:
        return Break(self._stream.name, epoch, sequence, kind, detail)


def _metadata(body: str) -> dict[str, Any]:
    try:
        metadata = json.loads(body)["metadata"]
    except (ValueError, KeyError, TypeError):
        return {}
    return metadata if isinstance(metadata, dict) else {}
