"""Chain scan: checks the sequence numbers, hashes and identity of the entries of one stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from faultbridge.domain.entries import Stream, chain
from faultbridge.domain.nodes import Head


class BreakKind(StrEnum):
    """Kind of a break: what is wrong with a stream, or with an object of the archive."""

    GAP = "gap"
    HASH = "hash"
    PLACE = "place"
    HEAD = "head"
    FORK = "fork"
    ANCHOR = "anchor"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Break:
    """A position in a stream from which on it cannot be trusted, and why.

    `object` is the key of an archive object, if the break concerns one.
    """

    stream: str
    epoch: int
    sequence: int
    kind: BreakKind
    detail: str
    object: str | None = None


class KnownHash(NamedTuple):
    """The hash of one entry as an anchor or a sealed manifest recorded it. `anchor` names that source."""

    hash: str
    anchor: str


Position = tuple[int, int]
"""Epoch and sequence of an entry."""

KnownHashes = Mapping[Position, KnownHash]


class ChainScan:
    """Checks the entries of one stream in their order.

    `start` is a trusted head: the scan begins after it. `known` holds hashes from anchors and sealed manifests.
    `recovered` holds the epochs that `faultbridge recover` began. Entries may be missing at the end of the epoch
    before such an epoch, because the backup did not contain them.
    """

    def __init__(
        self,
        stream: Stream,
        start: Head | None = None,
        known: KnownHashes | None = None,
        recovered: frozenset[int] = frozenset(),
    ) -> None:
        self._stream = stream
        self._known = known or {}
        self._recovered = recovered
        self._epoch = start.epoch if start else 0
        self._sequence = start.sequence if start else 0
        self._hash = start.hash if start else ""

    @property
    def position(self) -> Position:
        """Return the epoch and sequence of the last entry that was checked."""
        return self._epoch, self._sequence

    def check(self, entry: Mapping[str, Any]) -> list[Break]:
        """Check the next entry and return its breaks. The scan then continues from this entry as it is stored.

        One damaged entry is therefore reported once, not again for every entry after it.
        """
        epoch, sequence, body = int(str(entry["epoch"])), int(str(entry["sequence"])), str(entry["body"])
        breaks: list[Break] = []
        if epoch != self._epoch:
            if self._first_epoch() < epoch and epoch not in self._recovered:
                breaks += self.check_known()
            self._epoch, self._sequence, self._hash = epoch, 0, ""
        expected = self._sequence + 1
        previous = self._hash or self._stream.genesis(epoch)
        if sequence != expected:
            detail = f"the entry after {self._sequence} is {sequence}"
            breaks.append(self._break(epoch, expected, BreakKind.GAP, detail))
        elif chain(previous, body) != entry["hash"]:
            detail = "the hash does not match the body and the hash of the previous entry"
            breaks.append(self._break(epoch, sequence, BreakKind.HASH, detail))
        breaks += self._check_identity(epoch, sequence, body)
        self._sequence, self._hash = sequence, str(entry["hash"])
        return [*breaks, *self._check_known_hash(epoch, sequence)]

    def has_reached(self, head: Head) -> bool:
        """Return whether the scan has checked the entry that the head names."""
        return self.position >= (head.epoch, head.sequence)

    def check_head(self, head: Head) -> list[Break]:
        """Check that the last entry is the one that the state names as its last."""
        if self._sequence != head.sequence or (head.sequence and self._epoch != head.epoch):
            detail = (
                f"the state names {head.epoch}/{head.sequence} as the last entry, found {self._epoch}/{self._sequence}"
            )
            first = min(self._sequence, head.sequence) + 1 if self._epoch == head.epoch else 1
            return [self._break(head.epoch, first, BreakKind.HEAD, detail)]
        if self._hash != head.hash:
            detail = "the state names another hash for the last entry"
            return [self._break(head.epoch, head.sequence, BreakKind.HEAD, detail)]
        return []

    def check_known(self) -> list[Break]:
        """Check that no entry of this epoch with a known hash is missing; report the first missing one."""
        epoch = self._first_epoch()
        missing = [position for position in self._known if position[0] == epoch and position > self.position]
        if not missing:
            return []
        first, last = min(missing), max(missing)
        detail = f"{self._known[last].anchor} recorded {last[0]}/{last[1]}, which is missing"
        return [self._break(epoch, min(self._sequence + 1, first[1]), BreakKind.ANCHOR, detail)]

    def _first_epoch(self) -> int:
        """Return the scan's epoch, or before the first entry the earliest epoch with a known hash."""
        return self._epoch or min((epoch for epoch, _ in self._known), default=0)

    def _check_known_hash(self, epoch: int, sequence: int) -> list[Break]:
        known = self._known.get((epoch, sequence))
        if known is None or known.hash == self._hash:
            return []
        return [self._break(epoch, sequence, BreakKind.ANCHOR, f"{known.anchor} recorded another hash")]

    def _check_identity(self, epoch: int, sequence: int, body: str) -> list[Break]:
        metadata = _metadata(body)
        expected = {
            "epoch": epoch,
            "sequence": sequence,
            "stream": self._stream.name,
            "event_id": self._stream.event_id(epoch, sequence),
        }
        wrong = [name for name, value in expected.items() if metadata.get(name) != value]
        if not wrong:
            return []
        return [self._break(epoch, sequence, BreakKind.PLACE, f"the body holds another {', '.join(wrong)}")]

    def _break(self, epoch: int, sequence: int, kind: BreakKind, detail: str) -> Break:
        return Break(self._stream.name, epoch, sequence, kind, detail)


def _metadata(body: str) -> dict[str, Any]:
    """Return the metadata of an entry's body, or an empty dict when the body is not an event."""
    try:
        metadata = json.loads(body)["metadata"]
    except (ValueError, KeyError, TypeError):
        return {}
    return metadata if isinstance(metadata, dict) else {}
