"""Hash chain: checks the sequence numbers, hashes and attributes of the entries of one stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from faultbridge.dataclass import dataclass
from faultbridge.domain.entries import Stream, chain
from faultbridge.domain.nodes import Head
from faultbridge.ledger.entry_attributes import StoredForm, altered_attributes, misplaced, parse_entry
from faultbridge.ledger.stream_seal import Position, StreamSeal, entry_position


class BreakKind(StrEnum):
    """The kind of a defect (a break) in a stream of entries, a table row or an archive object."""

    GAP = "gap"
    HASH = "hash"
    PLACE = "place"
    ATTRIBUTE = "attribute"
    ROW = "row"
    HEAD = "head"
    FORK = "fork"
    ANCHOR = "anchor"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Break:
    """A defect (a break) that a verification found, and its reason (`detail`).

    `epoch` and `sequence` name the first entry that is missing or cannot be trusted. Both are 0 if the defect concerns
    no entry. `object` is the key of the archive object or table item that has the defect, or None for an entry.
    """

    stream: str
    epoch: int
    sequence: int
    kind: BreakKind
    detail: str
    object: str | None = None


class KnownHash(NamedTuple):
    """The hash of one entry as an anchor or a sealed manifest recorded it.

    An anchor is a locked record of where every stream ends. `anchor` is the name of this anchor or manifest.
    """

    hash: str
    anchor: str


KnownHashes = Mapping[Position, KnownHash]


class ChainScan:
    """Checks the entries of one stream in their order.

    - `form` computes the attributes of an entry as the table or the archive stores it.
    - `start` is a trusted entry; the scan starts after it. None means the start of the stream.
    - `seal` states which entries may have expired. These entries may be missing.
    - `known` contains hashes of entries from anchors and sealed manifests.
    - `recovered` are the epochs that `faultbridge recover` started. The epoch before such an epoch may lack entries
      at its end, because the backup did not contain them.
    """

    def __init__(
        self,
        stream: Stream,
        form: StoredForm,
        *,
        start: Head | None = None,
        seal: StreamSeal | None = None,
        known: KnownHashes | None = None,
        recovered: frozenset[int] = frozenset(),
    ) -> None:
        self._stream = stream
        self._form = form
        self._seal = seal or StreamSeal()
        self._known = known or {}
        self._recovered = recovered
        self._epoch = start.epoch if start else 0
        self._sequence = start.sequence if start else 0
        self._hash = start.hash if start else ""

    @property
    def position(self) -> Position:
        """Return the epoch and sequence of the last checked entry.

        Before the first check, the result is the position of `start`, or (0, 0).
        """
        return self._epoch, self._sequence

    def check(self, stored: Mapping[str, Any]) -> list[Break]:
        """Check the next entry; return the defects (breaks) found, such as entries missing before it.

        The scan then continues from this entry as it is stored. A defect is therefore not reported again for every
        entry after it.
        """
        position = _position(stored)
        if position is None:
            detail = f"the sort key names no entry: {stored['sk']}"
            return [self._break(self._epoch, self._sequence + 1, BreakKind.GAP, detail)]
        breaks: list[Break] = []
        if position[0] != self._epoch:
            if self._first_epoch() < position[0] and position[0] not in self._recovered:
                breaks += self.check_known()
            self._epoch, self._sequence, self._hash = position[0], 0, ""
        breaks += self._check_link(position, stored)
        breaks += self._check_content(position, stored)
        self._sequence, self._hash = position[1], str(stored.get("hash"))
        return [*breaks, *self._check_known_hash(*position)]

    def _check_link(self, position: Position, stored: Mapping[str, Any]) -> list[Break]:
        """Check an entry's sequence number and hash. The previous entry may be missing if it may have expired."""
        epoch, sequence = position
        expected, before = self._sequence + 1, (epoch, sequence - 1)
        previous = self._hash or self._stream.genesis(epoch)
        if sequence != expected:
            if sequence < expected or before > self._seal.missing_to:
                detail = f"the entry after {self._sequence} is {sequence}"
                return [self._break(epoch, expected, BreakKind.GAP, detail)]
            if before != self._seal.position:
                return []  # the hash of the entry before it is gone from the table; the archive has it
            previous = self._seal.head.hash
        if chain(previous, str(stored.get("body"))) != stored.get("hash"):
            detail = "the hash does not match the body and the hash of the previous entry"
            return [self._break(epoch, sequence, BreakKind.HASH, detail)]
        return []

    def _check_content(self, position: Position, stored: Mapping[str, Any]) -> list[Break]:
        """Check that an entry's body matches the entry's position, stream and attributes.

        An entry that `seal` does not allow to expire must have no expiry time.
        """
        try:
            parsed = parse_entry(self._stream, position, stored)
        except ValueError:
            return [self._break(*position, BreakKind.PLACE, "the body is not an event")]
        breaks: list[Break] = []
        if wrong := misplaced(parsed):
            breaks.append(self._break(*position, BreakKind.PLACE, f"the body holds another {', '.join(wrong)}"))
        altered = altered_attributes(parsed, stored, self._form)
        if "expires_at" in stored and position > self._seal.expires_to:
            altered.append("expires_at")
        if altered:
            detail = f"attributes that the body does not allow: {', '.join(altered)}"
            breaks.append(self._break(*position, BreakKind.ATTRIBUTE, detail))
        return breaks

    def has_reached(self, head: Head) -> bool:
        """Return whether the scan has reached or passed the entry that `head` names."""
        return self.position >= (head.epoch, head.sequence)

    def check_head(self, head: Head) -> list[Break]:
        """Return a defect unless the stream ends with the entry that the stored state names as its last."""
        self._skip_expired()
        if self._sequence != head.sequence or (head.sequence and self._epoch != head.epoch):
            detail = (
                f"the state names {head.epoch}/{head.sequence} as the last entry, found {self._epoch}/{self._sequence}"
            )
            first = min(self._sequence, head.sequence) + 1 if self._epoch == head.epoch else 1
            return [self._break(head.epoch, first, BreakKind.HEAD, detail)]
        last_id = self._stream.event_id(head.epoch, head.sequence) if head.sequence else None
        if self._hash != head.hash or last_id not in (None, head.event_id):
            detail = "the state names another hash or event id for the last entry"
            return [self._break(head.epoch, head.sequence, BreakKind.HEAD, detail)]
        return []

    def check_known(self) -> list[Break]:
        """Return a defect if known entries are missing at the end of the epoch of the last checked entry.

        A known entry is an entry in `known`. Before the first check, the earliest epoch in `known` is searched. A
        missing entry that may have expired is no defect.
        """
        epoch, reached = self._first_epoch(), max(self.position, self._seal.missing_to)
        missing = [position for position in self._known if position[0] == epoch and position > reached]
        if not missing:
            return []
        first, last = min(missing), max(missing)
        detail = f"{self._known[last].anchor} recorded {last[0]}/{last[1]}, which is missing"
        return [self._break(epoch, min(self._sequence + 1, first[1]), BreakKind.ANCHOR, detail)]

    def _skip_expired(self) -> None:
        """Continue after the last entry sealed in the archive, if all entries up to it may have expired."""
        if self.position < self._seal.position <= self._seal.missing_to:
            (self._epoch, self._sequence), self._hash = self._seal.position, self._seal.head.hash

    def _first_epoch(self) -> int:
        """Return the epoch in which `check_known` searches for missing entries.

        This is the epoch of the last checked entry. Before the first entry, it is the earliest epoch with a known hash,
        or 0 if there is no known hash.
        """
        return self._epoch or min((epoch for epoch, _ in self._known), default=0)

    def _check_known_hash(self, epoch: int, sequence: int) -> Iterator[Break]:
        if (epoch, sequence) == self._seal.position and self._hash != self._seal.head.hash:
            yield self._break(epoch, sequence, BreakKind.ROW, "the seal of the stream holds another hash")
        known = self._known.get((epoch, sequence))
        if known is not None and known.hash != self._hash:
            yield self._break(epoch, sequence, BreakKind.ANCHOR, f"{known.anchor} recorded another hash")

    def _break(self, epoch: int, sequence: int, kind: BreakKind, detail: str) -> Break:
        return Break(self._stream.name, epoch, sequence, kind, detail)


def _position(stored: Mapping[str, Any]) -> Position | None:
    """Return the epoch and sequence of a table item or archive line; None if the item is no entry."""
    if "sk" in stored:
        return entry_position(str(stored["sk"]))
    return stored["epoch"], stored["sequence"]
