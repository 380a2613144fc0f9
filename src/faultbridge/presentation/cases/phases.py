"""Phases: how long a case spent on each wait and on each step of each attempt.

The times come from the entries of the case. If the first entries are missing, one bar shows the total time of each
phase instead. The document of the case contains these totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.ledger.entry_text import duration_text
from faultbridge.presentation.cases.waits import begins_wait, waited_for
from faultbridge.presentation.entry_rows import Document, occurred_at, step_mark
from faultbridge.presentation.history import CASE_STATUS, NOTE, STEP, of_type
from faultbridge.presentation.lanes import Bar, Lane
from faultbridge.presentation.tones import Tone
from faultbridge.presentation.wording import words

STEP_TEXTS: Mapping[str, str] = {
    "drain": "drain",
    "collect": "collect logs",
    "release_instance": "release the instance",
    "await_successor": "wait for the successor",
    "repair_in_place": "repair in place",
    "verify": "diagnostics",
    "return_to_service": "return to service",
}
_PHASE_TEXTS: Mapping[str, str] = {
    "admitted": "start",
    "draining": "drain",
    "intent": "prepare",
    "acted": "act",
    "awaiting": "wait for the instance",
    "verifying": "diagnostics",
    "closing": "return to service",
}
_WAITING_PHASES = frozenset({"detected", "open", "queued", "absorbed"})


@dataclass(frozen=True, slots=True)
class Period:
    """A part of the time of a case; `name` states what the case did or waited for from `start` to `end`."""

    name: str
    tone: Tone
    start: datetime
    end: datetime
    running: bool = False


def phase_lanes(case: Document, entries: Sequence[Document], end: datetime) -> tuple[Lane, ...]:
    """Return the lanes of a chart that shows how the time of a case was spent.

    There is one lane for each kind of wait and for each repair step of an attempt, in the order of their first start.
    Times of no length are left out. If the first entries of the case are missing, there is one lane for each phase
    instead.
    """
    changes = of_type(entries, CASE_STATUS, NOTE, STEP)
    first = next((one for one in changes if one["metadata"]["event_type"] == CASE_STATUS), None)
    is_complete = first is not None and not first["data"].get("from")
    periods = tuple(_periods(case, changes, end) if is_complete else _recorded(case, end))
    lanes: dict[str, list[Period]] = {}
    for one in periods:
        if one.end > one.start:
            lanes.setdefault(one.name, []).append(one)
    return tuple(_lane(name, found) for name, found in lanes.items())


def _lane(name: str, periods: Sequence[Period]) -> Lane:
    total = sum((one.end - one.start for one in periods), timedelta())
    times = f", {len(periods)} times" if len(periods) > 1 else ""
    return Lane(name, tuple(map(_bar, periods)), f"{duration_text(_milliseconds(total))}{times}")


def _bar(period: Period) -> Bar:
    length = duration_text(_milliseconds(period.end - period.start))
    return Bar(period.start, period.end, "", period.tone, f"{period.name}: {length}", running=period.running)


def _periods(case: Document, changes: Iterable[Document], end: datetime) -> Iterator[Period]:
    """Yield the periods between the changes of a case.

    A wait is named after the change that starts it, and a repair step after the change that ends it.
    """
    name, tone, start, attempt = "", Tone.WAIT, end, 0
    for change in changes:
        at, data, kind = occurred_at(change), change["data"], change["metadata"]["event_type"]
        if kind == STEP:
            attempt = int(data.get("attempt") or attempt)
            done = f"attempt {attempt}: {STEP_TEXTS.get(str(data.get('step')), words(data.get('step')))}"
            yield Period(done, step_mark(data).tone, start, at)
            name, tone, start = f"attempt {attempt}: {_current(case)}", Tone.WORK, at
            continue
        if kind == NOTE and not (begins_wait(change) and tone is Tone.WAIT):
            continue
        yield Period(name, tone, start, at)
        attempt, start = int(data.get("attempt") or attempt), at
        name, tone = _state(data.get("to"), change, attempt, case)
    if case["closed_at"] is None:
        yield Period(name, tone, start, end, running=True)


def _state(status: object, change: Document, attempt: int, case: Document) -> tuple[str, Tone]:
    if status == "in_progress":
        return f"attempt {attempt}: {_current(case)}", Tone.WORK
    if status == "escalated":
        return "escalated: an operator is needed", Tone.BAD
    return f"wait: {waited_for(change)}", Tone.WAIT


def _current(case: Document) -> str:
    return current_phase(case) or "end"


def current_phase(case: Document) -> str:
    """Return what a running attempt does now, by the last phase of the case.

    The result is "" if no attempt runs, or if there is no text for the phase.
    """
    phase = next(reversed(tuple(case["phases"])), "") if case["status"] == "in_progress" else ""
    return _PHASE_TEXTS.get(phase, "")


def _recorded(case: Document, end: datetime) -> Iterator[Period]:
    """Yield one period for each phase of a case, with the length that the case's document states.

    The periods follow one another without gaps, and the last one ends at `end`.
    """
    phases = case["phases"]
    at = end - timedelta(milliseconds=sum(phases.values()))
    for number, (name, milliseconds) in enumerate(phases.items(), 1):
        until = at + timedelta(milliseconds=milliseconds)
        tone = Tone.WAIT if name in _WAITING_PHASES else Tone.BAD if name == "escalated" else Tone.WORK
        yield Period(words(name), tone, at, until, running=case["closed_at"] is None and number == len(phases))
        at = until


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
