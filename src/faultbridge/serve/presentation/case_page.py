"""The page of a case: answers (`case_answers`), phases, attempts and entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import action_text, why_text, words
from faultbridge.model.event_data import CaseStatusData, NodeStatusData, NoteData, ReplacementStepData
from faultbridge.model.values import replace
from faultbridge.record.entry_text import component_text, duration_text
from faultbridge.repair.registry.documents import Case, ShownCase
from faultbridge.repair.registry.views import CasePageSent
from faultbridge.serve.presentation.case_answers import (
    Answer,
    CaseFacts,
    begins_wait,
    case_answers,
    case_waits,
    waited_for,
)
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, ReadEntry, entries_with, entry_rows, step_mark
from faultbridge.serve.presentation.history import (
    Bar,
    Chart,
    Lane,
    Span,
    attempt_lanes,
    condition_lanes,
    make_chart,
    status_lane,
)
from faultbridge.serve.presentation.tones import CASE, NODE, SEVERITY, Mark, Tone, mark

# Without the first entries of a case, one bar shows the total time of each phase, which its document contains.

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


class Period(Struct, frozen=True):
    """A part of the time of a case; `name` states what the case did or waited for from `start` to `end`."""

    name: str
    tone: Tone
    start: datetime
    end: datetime
    running: bool = False


def phase_lanes(case: Case, entries: Entries, end: datetime) -> tuple[Lane, ...]:
    """Return a lane for each kind of wait and repair step, or for each phase if first entries are missing."""
    first = next((one.data for one in entries_with(entries, CaseStatusData)), None)
    is_complete = first is not None and not first.from_
    changes = sorted(entries, key=lambda one: one.at)
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


def _periods(case: Case, changes: Entries, end: datetime) -> Iterator[Period]:
    """Yield the periods of a case: a wait is named after its first change, a step after its last."""
    name, tone, start, attempt = "", Tone.WAIT, end, 0
    for change in changes:
        at, data = change.at, change.data
        if isinstance(data, ReplacementStepData):
            attempt = data.attempt or attempt
            done = f"attempt {attempt}: {STEP_TEXTS.get(data.step, words(data.step))}"
            yield Period(done, step_mark(data).tone, start, at)
            name, tone, start = f"attempt {attempt}: {_current(case)}", Tone.WORK, at
            continue
        is_case = isinstance(data, CaseStatusData)
        if not is_case and not (isinstance(data, NoteData) and begins_wait(change) and tone is Tone.WAIT):
            continue
        yield Period(name, tone, start, at)
        attempt, start = (data.attempt if is_case else None) or attempt, at
        name, tone = _state(data.to if is_case else None, change, attempt, case)
    if case.closed_at is None:
        yield Period(name, tone, start, end, running=True)


def _state(status: object, change: ReadEntry[Any], attempt: int, case: Case) -> tuple[str, Tone]:
    if status == "in_progress":
        return f"attempt {attempt}: {_current(case)}", Tone.WORK
    if status == "escalated":
        return "escalated: an operator is needed", Tone.BAD
    return f"wait: {waited_for(change)}", Tone.WAIT


def _current(case: Case) -> str:
    return current_phase(case) or "end"


def current_phase(case: Case) -> str:
    """Return what a running attempt does now; "" if none runs or the phase has no text."""
    phase = next(reversed(tuple(case.phases)), "") if case.status == "in_progress" else ""
    return _PHASE_TEXTS.get(phase, "")


def _recorded(case: Case, end: datetime) -> Iterator[Period]:
    """Yield one period for each phase with its stated length, the last one until `end`."""
    phases = case.phases
    at = end - timedelta(milliseconds=sum(phases.values()))
    for number, (name, milliseconds) in enumerate(phases.items(), 1):
        until = at + timedelta(milliseconds=milliseconds)
        tone = Tone.WAIT if name in _WAITING_PHASES else Tone.BAD if name == "escalated" else Tone.WORK
        yield Period(words(name), tone, at, until, running=case.closed_at is None and number == len(phases))
        at = until


def _milliseconds(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


FINAL = frozenset({"resolved", "expired"})
PAGE_TEXTS = {
    "opened": "A repair is needed and runs or waits",
    "approval": "An approval is required",
    "stopped": "Automation stopped: an operator is needed",
    "escalated": "The case is escalated: an operator is needed",
    "isolation": "The node could not be isolated",
}
"""The subjects of pages by kind."""


class CasePage(Struct, frozen=True):
    """The content that the console and the report file show about one case."""

    case: ShownCase
    status: Mark
    severity: Mark
    component: str
    meaning: str
    duration: str
    facts: tuple[tuple[str, str], ...]
    related: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]
    phases: Chart
    lanes: Chart
    pages: Sequence[CasePageSent]
    rows: tuple[EntryRow, ...]
    older: bool

    @property
    def live(self) -> bool:
        """Whether the case is not closed, so that it may still change."""
        return self.case.closed_at is None


def case_page(facts: CaseFacts, now: datetime) -> CasePage:
    """Return the page of a case."""
    case, rows = facts.case, entry_rows(facts.entries)
    closed, opened = case.closed_at, case.opened_at
    end = closed or max([now, *(row.at for row in rows)])
    phases = phase_lanes(case, facts.entries, end)
    start = min([opened, *(bar.start for lane in phases for bar in lane.bars)])
    return CasePage(
        case=case,
        status=case_mark(case, with_phase=False),
        severity=mark(case.severity, SEVERITY),
        component=component_text(case.component),
        meaning=facts.meaning,
        duration=duration_text(case.age_ms),
        facts=_facts(case),
        related=_related(case),
        answers=case_answers(facts),
        phases=make_chart(start, end, phases),
        lanes=make_chart(start, end, _lanes(facts, Span(start, end, running=closed is None))),
        pages=facts.pages,
        rows=rows,
        older=facts.older,
    )


def case_mark(case: Case, *, with_phase: bool = True) -> Mark:
    """Return the status of a case with its resolution, what it waits for, or what its repair does now."""
    status = mark(case.status, CASE)
    detail = case.resolution or case.waiting_for or (current_phase(case) if with_phase else "")
    return replace(status, text=f"{status.text}: {words(detail)}") if detail else status


def case_reason(case: Case) -> str:
    """Return why a case has its status, in words."""
    return why_text(case.reason, case.failure, case.detail)


def _lanes(facts: CaseFacts, span: Span) -> tuple[Lane, ...]:
    conditions = () if facts.case.status in FINAL else facts.node.conditions
    sent = tuple(
        Bar(page.sent_at, page.sent_at, page.kind, Tone.WATCH, f"page {page.kind}, now {page.page_state}")
        for page in facts.pages
    )
    return (
        status_lane("node", facts.entries, NodeStatusData, NODE, span),
        *condition_lanes(facts.entries, conditions, span),
        status_lane("case", facts.entries, CaseStatusData, CASE, span),
        _wait_lane(facts, span),
        *attempt_lanes(facts.entries),
        Lane("pages", sent),
    )


def _wait_lane(facts: CaseFacts, span: Span) -> Lane:
    bars = (
        Bar(one.start, one.end or span.end, one.waiting_for, Tone.WAIT, one.reason, one.target, running=one.end is None)
        for one in case_waits(facts.entries)
    )
    return Lane("waits for", tuple(bars))


def _facts(case: Case) -> tuple[tuple[str, str], ...]:
    rows = [
        ("Repair action", action_text(case.repair_action)),
        ("Attempts", str(case.attempt)),
        ("Rule", f"{case.rule} (policy {case.policy})"),
    ]
    if case.code == "operator.quarantine":
        rows = []  # the order decides, not the action and the rule of its code
    rows.append(("GPU time lost", _hours(case.gpu_time_lost_ms)))
    if case.receipt is not None:
        rows.append(("With the provider's repair", _hours(case.receipt.provider_repair)))
        rows.append(("Without automation", _hours(case.receipt.no_automation)))
    return (*rows, ("Case", case.case_id))


def _hours(gpu_ms: int | None) -> str:
    return "-" if gpu_ms is None else f"{gpu_ms / 3_600_000:.2f} GPU-hours"


def _related(case: Case) -> tuple[tuple[str, str], ...]:
    named = (("Relapse of", case.relapse_of), ("Previous case", case.previous_case))
    return tuple((text, found) for text, found in named if found)
