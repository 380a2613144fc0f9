"""The walk along one stream: what the last entry was, and so what the next must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from faultbridge.domain.entries import Stream, chain
from faultbridge.domain.nodes import Head


class BreakKind(StrEnum):
    """What is wrong with a stream, or with an object of the archive."""

    GAP = "gap"
    HASH = "hash"
    PLACE = "place"
    HEAD = "head"
    FORK = "fork"
    ANCHOR = "anchor"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Break:
    """The place in a stream from which on it cannot be trusted, and what is wrong there; `object` is the archive's."""

    stream: str
    epoch: int
    sequence: int
    kind: BreakKind
    detail: str
    object: str | None = None


class Point(NamedTuple):
    """An entry's hash as somebody else wrote it down, and who."""

    hash: str
    anchor: str


Points = Mapping[tuple[int, int], Point]
"""What is known of a stream's hashes from outside, by epoch and sequence."""


class Walk:
    """Judges the entries of one stream in their order.

    `start` is a place that is trusted, `points` what others saw, `restored` the epochs that a recorded restore began:
    the end of the epoch before such a one may be lost.
    """

    def __init__(
        self,
        stream: Stream,
        start: Head | None = None,
        points: Points | None = None,
        restored: frozenset[int] = frozenset(),
    ) -> None:
        self._stream = stream
        self._points = points or {}
        self._restored = restored
        self._epoch = start.epoch if start else 0
        self._sequence = start.sequence if start else 0
        self._hash = start.hash if start else ""

    @property
    def place(self) -> tuple[int, int]:
        """Return where the walk is."""
        return self._epoch, self._sequence

    @property
    def hash(self) -> str:
        """Return the hash of the last entry."""
        return self._hash

    def take(self, entry: Mapping[str, Any]) -> list[Break]:
        """Judge the next entry; afterwards go on from it as it stands, so that one break is told once."""
        epoch, sequence, body = int(str(entry["epoch"])), int(str(entry["sequence"])), str(entry["body"])
        breaks: list[Break] = []
        if epoch != self._epoch:
            if self._earliest() < epoch and epoch not in self._restored:
                breaks += self.unseen()
            self._epoch, self._sequence, self._hash = epoch, 0, ""
        expected = self._sequence + 1
        previous = self._hash or self._stream.genesis(epoch)
        if sequence != expected:
            said = f"the entry after {self._sequence} is {sequence}"
            breaks.append(self._broken(epoch, expected, BreakKind.GAP, said))
        elif chain(previous, body) != entry["hash"]:
            breaks.append(self._broken(epoch, sequence, BreakKind.HASH, "the body does not fit the hash before it"))
        breaks += self._misplaced(epoch, sequence, body)
        self._sequence, self._hash = sequence, str(entry["hash"])
        return [*breaks, *self._contradicted(epoch, sequence)]

    def reached(self, head: Head) -> bool:
        """Tell whether the walk has come as far as the head."""
        return self.place >= (head.epoch, head.sequence)

    def end(self, head: Head) -> list[Break]:
        """Judge whether the last entry is the one that the state says is the last."""
        if self._sequence != head.sequence or (head.sequence and self._epoch != head.epoch):
            found = f"{self._epoch}/{self._sequence}"
            said = f"the state says that {head.epoch}/{head.sequence} is the last entry, found is {found}"
            place = min(self._sequence, head.sequence) + 1 if self._epoch == head.epoch else 1
            return [self._broken(head.epoch, place, BreakKind.HEAD, said)]
        if self._hash != head.hash:
            return [self._broken(head.epoch, head.sequence, BreakKind.HEAD, "the state names another last hash")]
        return []

    def unseen(self) -> list[Break]:
        """Judge whether every entry of this epoch that others saw was met; names the first that was cut off."""
        epoch = self._earliest()
        missing = [place for place in self._points if place[0] == epoch and place > self.place]
        if not missing:
            return []
        first, last = min(missing), max(missing)
        said = f"{last[0]}/{last[1]} was there at {self._points[last].anchor}"
        return [self._broken(epoch, min(self._sequence + 1, first[1]), BreakKind.ANCHOR, said)]

    def _earliest(self) -> int:
        """Return the epoch in which the walk is, or before its first entry that in which others saw one."""
        return self._epoch or min((epoch for epoch, _ in self._points), default=0)

    def _contradicted(self, epoch: int, sequence: int) -> list[Break]:
        point = self._points.get((epoch, sequence))
        if point is None or point.hash == self._hash:
            return []
        return [self._broken(epoch, sequence, BreakKind.ANCHOR, f"{point.anchor} saw another hash")]

    def _misplaced(self, epoch: int, sequence: int, body: str) -> list[Break]:
        metadata = _metadata(body)
        true = {
            "epoch": epoch,
            "sequence": sequence,
            "stream": self._stream.name,
            "event_id": self._stream.event_id(epoch, sequence),
        }
        wrong = [name for name, value in true.items() if metadata.get(name) != value]
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
