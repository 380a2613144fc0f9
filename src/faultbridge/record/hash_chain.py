"""Hash chain: checks the sequence numbers, hashes and attributes of the entries of one stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from faultbridge.model.entries import Entry, Stream, chain, device_of, evidence_digest
from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import Head
from faultbridge.model.recorded import read_data
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.archive_lines import line_of
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.record.cluster_stream import partition

Position = tuple[int, int]
"""Epoch and sequence of an entry."""


_ENTRY_SORT_KEY = re.compile(rf"{keys.ENTRY}(\d{{4}})#(\d{{12}})")
_UNSEALED = Head(epoch=0)


class StreamSeal(Struct, frozen=True):
    """The last sealed entry of a stream, `head`, and the last position that may expire, `expires_to`.

    When a day is sealed, `head` moves to the last entry of the day. If entries expire, `expires_to` is stored before
    the entries of the day get their expiry times, and `head` after that. In between, `expires_to` is ahead of `head`.
    """

    head: Head = _UNSEALED
    expires_to: Position = (0, 0)

    @property
    def position(self) -> Position:
        """Return the epoch and sequence of the last sealed entry."""
        return self.head.epoch, self.head.sequence

    @property
    def missing_to(self) -> Position:
        """Return the position up to which entries are sealed, and may have expired and be missing."""
        return min(self.position, self.expires_to)


def entry_position(sort_key: str) -> Position | None:
    """Return the epoch and sequence in the sort key of an entry; None if the key is not that of an entry."""
    found = _ENTRY_SORT_KEY.fullmatch(sort_key)
    return None if found is None else (int(found[1]), int(found[2]))


def place_text(position: Position) -> str:
    """Return a position (epoch and sequence) as text; texts sort in the order of their positions."""
    return f"{position[0]:04d}#{position[1]:012d}"


def seal_item(partition: str, seal: StreamSeal, day: str, now: datetime) -> Item:
    """Return the table item of a stream's seal; `day` is the last sealed day."""
    attributes: Item = {
        "epoch": seal.head.epoch,
        "seq": seal.head.sequence,
        "hash": seal.head.hash,
        "place": place_text(seal.position),
        "segment": day,
        "expires_to": place_text(seal.expires_to),
    }
    return items.item(keys.stream_anchor(partition), now, attributes)


def read_seal(found: Item | None) -> StreamSeal:
    """Return the seal in a table item; without an item it is (0, 0), a damaged one raises `bad_seal`."""
    if found is None:
        return StreamSeal()
    try:
        epoch, sequence = str(found["expires_to"]).split("#")
        head = Head(epoch=int(str(found["epoch"])), sequence=int(str(found["seq"])), hash=str(found["hash"]))
        seal = StreamSeal(head, (int(epoch), int(sequence)))
        consistent = found["place"] == place_text(seal.position)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Rejected("bad_seal", f"the seal of {found.get('pk')} cannot be read: {error}") from None
    if not consistent:
        place = f"{found['place']} is not {seal.head.epoch}/{seal.head.sequence}"
        raise Rejected("bad_seal", f"the seal of {found.get('pk')} contradicts itself: {place}")
    return seal


StoredForm = Callable[[Entry, Item], Item]
"""Computes the attributes that a stored entry must have, from the entry and its stored attributes."""

_UNDETERMINED = frozenset({"instance_id", "expires_at"})
"""Attributes of an entry that its body does not determine."""


def table_form(shard: int) -> StoredForm:
    """Return a function that computes an entry's table attributes, in a shard of the cluster's index."""

    def build(entry: Entry, stored: Item) -> Item:
        instance_id = stored.get("instance_id")
        return items.entry_item(entry, partition(entry.stream), shard, str(instance_id) if instance_id else None)

    return build


def archive_form(entry: Entry, _stored: Item) -> Item:
    """Return the attributes that an entry has in the S3 archive."""
    return asdict(line_of(items.entry_item(entry, partition(entry.stream), 0)))


class ParsedEntry(Struct, frozen=True):
    """A timeline entry that was recomputed from its stored body, with the metadata and data of the body."""

    entry: Entry
    metadata: Item
    data: Item


def parse_entry(stream: Stream, position: tuple[int, int], stored: Item) -> ParsedEntry:
    """Return the entry that a stored item contains; a body that is not an event raises ValueError."""
    try:
        text = str(stored["body"])
        body = json.loads(text)
        metadata, data = dict(body["metadata"]), dict(body["data"])
        dict(data.get("component") or {})
        kind, severity = EntryType(metadata["event_type"]), metadata["severity"]
        entry = Entry(
            stream=stream,
            epoch=position[0],
            sequence=position[1],
            event_id=stream.event_id(*position),
            type=kind,
            severity=Severity(severity) if severity else None,
            recorded_at=from_text(metadata["recorded_at"]),
            body=text,
            hash=str(stored.get("hash")),
            evidence=str(stored.get("evidence") or ""),
            case_id=metadata["case_id"],
            device=device_of(read_data(body)),
            causation_id=metadata.get("causation_id"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return ParsedEntry(entry, metadata, data)


def misplaced(parsed: ParsedEntry) -> list[str]:
    """Return the names of the metadata fields in the body that contradict the entry's stream or position."""
    entry, stream = parsed.entry, parsed.entry.stream
    expected = {
        "epoch": entry.epoch,
        "sequence": entry.sequence,
        "stream": stream.name,
        "event_id": entry.event_id,
        "cluster": stream.cluster,
        "node": stream.node,
    }
    return [name for name, value in expected.items() if parsed.metadata.get(name) != value]


def altered_attributes(parsed: ParsedEntry, stored: Item, form: StoredForm) -> list[str]:
    """Return the names of stored attributes that contradict the body; `schema` for an unknown version."""
    try:
        current = items.upcast(stored)
    except (KeyError, TypeError, ValueError, Misconfigured):
        return ["schema"]
    expected, evidence = form(parsed.entry, current), parsed.entry.evidence
    altered = {name for name in _different(current, expected) if not _unproven(name, current)}
    if parsed.data.get("evidence_sha256") != (evidence_digest(evidence) if evidence else None):
        altered.add("evidence")
    return sorted(altered)


def _different(one: Item, other: Item) -> list[str]:
    return [name for name in one.keys() | other.keys() if one.get(name, _MISSING) != other.get(name, _MISSING)]


_MISSING = object()


def _unproven(name: str, stored: Item) -> bool:
    """Return whether a difference proves no alteration: the body does not determine the attribute.

    Publishing an entry removes the index keys `gsi4pk` and `gsi4sk`, so they may be missing.
    """
    if name in {"gsi4pk", "gsi4sk"}:
        return name not in stored
    return name in _UNDETERMINED


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


class Break(Struct, frozen=True):
    """A defect of a stream: the position at which the verification of its hash chain failed, and why."""

    stream: str
    epoch: int
    sequence: int
    kind: BreakKind
    detail: str
    object: str | None = None


class KnownHash(NamedTuple):
    """The hash of one entry as an anchor or a sealed manifest recorded it."""

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
        """Return the position of the last checked entry; before that, of `start`, or (0, 0)."""
        return self._epoch, self._sequence

    def check(self, stored: Item) -> list[Break]:
        """Check the next entry, and continue from it as stored, so that a defect is not repeated."""
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

    def _check_link(self, position: Position, stored: Item) -> list[Break]:
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

    def _check_content(self, position: Position, stored: Item) -> list[Break]:
        """Check an entry's body, position, stream and attributes, and that it expires only if sealed."""
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
        """Return a defect if known, unexpired entries are missing at the end of the last epoch."""
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
        """Return the epoch of the last checked entry; before it, the earliest with a known hash, or 0."""
        return self._epoch or min((epoch for epoch, _ in self._known), default=0)

    def _check_known_hash(self, epoch: int, sequence: int) -> Iterator[Break]:
        if (epoch, sequence) == self._seal.position and self._hash != self._seal.head.hash:
            yield self._break(epoch, sequence, BreakKind.ROW, "the seal of the stream holds another hash")
        known = self._known.get((epoch, sequence))
        if known is not None and known.hash != self._hash:
            yield self._break(epoch, sequence, BreakKind.ANCHOR, f"{known.anchor} recorded another hash")

    def _break(self, epoch: int, sequence: int, kind: BreakKind, detail: str) -> Break:
        return Break(self._stream.name, epoch, sequence, kind, detail)


def _position(stored: Item) -> Position | None:
    """Return the epoch and sequence of a table item or archive line; None if the item is no entry."""
    if "sk" in stored:
        return entry_position(str(stored["sk"]))
    return int(str(stored["epoch"])), int(str(stored["sequence"]))
