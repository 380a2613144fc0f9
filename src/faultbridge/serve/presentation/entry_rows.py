"""Entry rows: timeline entries as rows of a page, with their JSON and position in the hash chain."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct

from faultbridge.decide.answers import reason_text, why_text, words
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import (
    CaseStatusData,
    EventData,
    FaultData,
    NodeStatusData,
    NoteData,
    ReplacementStepData,
    json_text,
)
from faultbridge.model.recorded import RecordedEvent
from faultbridge.record.entry_text import entry_text
from faultbridge.repair.registry.documents import Entry
from faultbridge.serve.presentation.tones import CASE, CLUSTER, INCIDENT, NODE, SEVERITY, Mark, Tone, mark

D = TypeVar("D")
E = TypeVar("E", bound=EventData)


class ReadEntry(RecordedEvent[D], Generic[D], frozen=True, kw_only=True):
    """A timeline entry with its data as a structure, and its document, which contains what this version ignores."""

    document: Entry

    @property
    def at(self) -> datetime:
        """The time at which the event of the entry happened."""
        return self.metadata.occurred_at

    @property
    def target(self) -> str:
        """The link to the row of the entry in its page."""
        return f"#e-{self.metadata.event_id}"


Entries = Iterable[ReadEntry[Any]]


def read_entry(document: Entry) -> ReadEntry[EventData | None]:
    """Return the entry of a document."""
    event = document.event
    return ReadEntry(metadata=event.metadata, data=event.data, document=document)


def documents_of(entries: Entries) -> list[Entry]:
    """Return the documents of entries, as a page offers them as JSON."""
    return [one.document for one in entries]


def entries_with(entries: Entries, kind: type[E], *types: EntryType) -> tuple[ReadEntry[E], ...]:
    """Return the entries with this class of data, or only those of the types, in the order in which they happened."""
    found = (one for one in entries if isinstance(one.data, kind) and (not types or one.metadata.event_type in types))
    return tuple(sorted(found, key=lambda one: one.at))


class EntryRow(Struct, frozen=True):
    """One entry, with what happened and why in words, and how urgent it is."""

    entry: ReadEntry[Any]
    what: str
    why: str
    tone: Tone

    @property
    def at(self) -> datetime:
        """The time at which the event of the entry happened."""
        return self.entry.at

    @property
    def text(self) -> str:
        """The complete event as JSON."""
        document = self.entry.document
        return json_text({"metadata": document.metadata, "data": document.data}, indent=2, ascii_only=False)

    @property
    def anchor(self) -> str:
        """The HTML id of the row in its page, to which the bars of charts link."""
        return f"e-{self.entry.metadata.event_id}"


def entry_rows(entries: Entries) -> tuple[EntryRow, ...]:
    """Return a row for each entry by the time of its event; entries of one time keep their order."""
    return tuple(sorted(map(_row, entries), key=lambda row: row.at))


def _row(entry: ReadEntry[Any]) -> EntryRow:
    kind = entry.metadata.event_type
    text = entry_text(kind, entry.data)
    return EntryRow(entry, words(text.what) if kind in _NAMED else text.what, _why(entry, text.why), tone_of(entry))


def tone_of(entry: ReadEntry[Any]) -> Tone:
    """Return the tone of an entry, from its new status, its severity or the outcome of its step, else OFF."""
    kind, data = entry.metadata.event_type, entry.data
    if kind == EntryType.FAULT_CLEARED:
        return Tone.GOOD
    if isinstance(data, FaultData):
        return mark(data.severity, SEVERITY).tone
    if isinstance(data, ReplacementStepData):
        return step_mark(data).tone
    tones = _TONES.get(kind)
    return mark(data and data.to, tones).tone if tones else Tone.OFF


def step_mark(step: ReplacementStepData) -> Mark:
    """Return the outcome of a repair step as a mark (text with a tone)."""
    failed = step.failure or step.outcome in _FAILED
    return Mark(step.outcome, Tone.BAD if failed else Tone.WORK)


_FAILED = frozenset({"failed", "error", "escalated", "aborted", "refused", "timed_out", "deadline"})
_TONES = {
    EntryType.NODE_STATUS.value: NODE,
    EntryType.CASE_STATUS.value: CASE,
    EntryType.CLUSTER_STATUS.value: CLUSTER,
    EntryType.CLUSTER_INCIDENT.value: INCIDENT,
}
_NAMED = frozenset({*_TONES, EntryType.REPLACEMENT_STEP.value})
"""Entry types whose text contains only names of Faultbridge. The text of other types may come from a source."""


def _why(entry: ReadEntry[Any], why: str) -> str:
    """Return the reason of an entry in words; unchanged if a source or an operator has written it."""
    data = entry.data
    by_source = isinstance(data, FaultData) and entry.metadata.event_type != EntryType.FAULT_CLEARED
    if by_source or (isinstance(data, NoteData) and data.kind == "operator"):
        return why
    has_detail = isinstance(data, CaseStatusData | NodeStatusData) and data.detail
    return why_text(data.reason, data.failure, data.detail) if has_detail else reason_text(why)
