"""Entry rows: timeline entries as rows of a page, with their JSON and position in the hash chain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.model.times import from_text
from faultbridge.record.entry_text import entry_text
from faultbridge.serve.presentation.tones import (
    CASE,
    CLUSTER,
    INCIDENT,
    NODE,
    SEVERITY,
    Mark,
    Tone,
    mark,
    reason_text,
    why_text,
    words,
)

Document = Mapping[str, Any]


class EntryRow(Struct, frozen=True):
    """One entry: when it happened, what and why, the complete event, and its position in its stream."""

    at: datetime
    node: str | None
    event_type: str
    what: str
    why: str
    tone: Tone
    late: bool
    event_id: str
    stream: str
    epoch: int
    sequence: int
    hash: str
    previous_event_id: str | None
    causation_id: str | None
    recorded_by: str
    text: str

    @property
    def anchor(self) -> str:
        """The HTML id of the row in its page, to which the bars of charts link."""
        return f"e-{self.event_id}"


def entry_rows(entries: Iterable[Document]) -> tuple[EntryRow, ...]:
    """Return a row for each entry by the time of its event; entries of one time keep their order."""
    return tuple(sorted(map(_row, entries), key=lambda row: row.at))


def occurred_at(entry: Document) -> datetime:
    """Return the time at which the event of an entry happened."""
    return from_text(str(entry["metadata"]["occurred_at"]))


def _row(entry: Document) -> EntryRow:
    metadata, text = entry["metadata"], entry_text(entry)
    return EntryRow(
        at=occurred_at(entry),
        node=metadata["node"],
        event_type=str(metadata["event_type"]),
        what=words(text.what) if metadata["event_type"] in _NAMED else text.what,
        why=_why(entry, text.why),
        tone=tone_of(entry),
        late=bool(entry.get("late")),
        event_id=str(metadata["event_id"]),
        stream=str(metadata["stream"]),
        epoch=int(metadata["epoch"]),
        sequence=int(metadata["sequence"]),
        hash=str(entry.get("hash") or ""),
        previous_event_id=metadata["previous_event_id"],
        causation_id=metadata["causation_id"],
        recorded_by=str(metadata["recorded_by"]),
        text=json.dumps({"metadata": metadata, "data": entry["data"]}, indent=2, ensure_ascii=False),
    )


def why_of(data: Document) -> tuple[object, object, object]:
    """Return the reason in the data of an event, its failure code, and its end that a step or an operator gave."""
    return data.get("reason"), data.get("failure"), data.get("detail")


def tone_of(entry: Document) -> Tone:
    """Return the tone of an entry, from its new status, its severity or the outcome of its step, else OFF."""
    kind, data = str(entry["metadata"]["event_type"]), entry.get("data") or {}
    if kind == "Node Fault Cleared":
        return Tone.GOOD
    if kind.startswith("Node Fault"):
        return mark(data.get("severity"), SEVERITY).tone
    if kind == "Node Replacement Step":
        return step_mark(data).tone
    tones = _TONES.get(kind)
    return mark(data.get("to"), tones).tone if tones else Tone.OFF


def step_mark(step: Document) -> Mark:
    """Return the outcome of a repair step as a mark (text with a tone)."""
    failed = step.get("failure") or step.get("outcome") in _FAILED
    return Mark(str(step.get("outcome") or ""), Tone.BAD if failed else Tone.WORK)


_FAILED = frozenset({"failed", "error", "escalated", "aborted", "refused", "timed_out", "deadline"})
_TONES = {
    "Node Status Change": NODE,
    "Case Status Change": CASE,
    "Cluster Status Change": CLUSTER,
    "Cluster Incident Change": INCIDENT,
}
_NAMED = frozenset({*_TONES, "Node Replacement Step"})
"""Entry types whose text contains only names of Faultbridge. The text of other types may come from a source."""


def _why(entry: Document, why: str) -> str:
    """Return the reason of an entry in words; unchanged if a source or an operator has written it."""
    kind, data = str(entry["metadata"]["event_type"]), entry.get("data") or {}
    if kind in {"Node Fault Detected", "Node Fault Updated"} or data.get("kind") == "operator":
        return why
    return why_text(*why_of(data)) if data.get("detail") is not None else reason_text(why)
