"""Daily notes: which informational and late faults are recorded today, each once and within limits.

A late fault is about an earlier instance or boot, or may be about a condition that ended (`attribution`). In the
state of a node, `noted` maps the key of a note to the day on which the note was last recorded. The prefix of a key
names the group of the note. Each group has its own limit, so that reports of a foreign instance cannot prevent the
notes of the node itself.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind
from faultbridge.model.faults import Fault

MAX_NOTED = 72
INFORMATION, LATE, UNREGISTERED, DAMPED = "", "late:", "unregistered:", "damped:"
MAX_PER_DAY = {INFORMATION: 40, LATE: 10, UNREGISTERED: 6, DAMPED: 6}
"""Notes of a node per day, by group: informational faults, own late faults, late faults of other instances, claims."""

_PREFIXES = (LATE, UNREGISTERED, DAMPED, "isolation:")
_SUMMARY = "more"


class Note(Enum):
    """What to record for a key today: the fault, one summary that further faults exist, or nothing."""

    FAULT = "fault"
    SUMMARY = "summary"
    NOTHING = "nothing"


def take_note(noted: dict[str, str], key: str, at: datetime) -> Note:
    """Return what to record for a fault, once a day for each key, and store the day in `noted`.

    If the group of the key has reached its daily limit, one summary is recorded instead, and nothing after that.
    """
    day = at.date().isoformat()
    if noted.get(key, "") >= day:
        return Note.NOTHING
    group = _group(key)
    summary = f"{group}{_SUMMARY}"
    limit = MAX_PER_DAY.get(group, MAX_NOTED)
    is_full = sum(last >= day and _group(other) == group and other != summary for other, last in noted.items()) >= limit
    if is_full and noted.get(summary, "") >= day:
        return Note.NOTHING
    noted[summary if is_full else key] = day
    while len(noted) > MAX_NOTED:
        del noted[min(noted, key=noted.__getitem__)]
    return Note.SUMMARY if is_full else Note.FAULT


def note_change(note: Note, kind: ChangeKind, group: str, fault: Fault, arrival: Arrival, reason: str) -> Change:
    """Return the change for a fault without a condition or for a summary; a late one names its sender."""
    reported = {"instance_id": arrival.instance_id, "sender": arrival.sender}
    facts = {name: value for name, value in reported.items() if value and kind is ChangeKind.LATE}
    noted = fault if note is Note.FAULT else None
    return Change(
        kind, arrival.at, None, noted, arrival.record_id, reason if noted else summary_text(group), facts=facts
    )


def summary_text(group: str) -> str:
    """Return the note that the daily limit of a group of keys, such as LATE, was reached."""
    kinds = {
        INFORMATION: "informational faults",
        DAMPED: "claims of sources whose earlier claims were refuted",
        LATE: "late faults",
    }
    kind = kinds.get(group, "faults of an earlier or unknown instance")
    return f"More than {MAX_PER_DAY[group]} different {kind} today; more only get an outcome."


def _group(key: str) -> str:
    return next((prefix for prefix in _PREFIXES if key.startswith(prefix)), INFORMATION)
