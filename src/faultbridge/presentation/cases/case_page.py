"""Case page: answers what happened, why, and what to do; shows phases, attempts, pages and entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text, duration_text
from faultbridge.presentation.cases.case_answers import Answer, case_answers
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.cases.phases import phase_lanes
from faultbridge.presentation.cases.waits import Wait, case_waits
from faultbridge.presentation.entry_rows import Document, EntryRow, entry_rows
from faultbridge.presentation.history import (
    CASE_STATUS,
    NODE_STATUS,
    Span,
    attempt_lanes,
    condition_lanes,
    status_lane,
)
from faultbridge.presentation.lanes import Bar, Chart, Lane, make_chart
from faultbridge.presentation.tones import CASE, NODE, SEVERITY, Mark, Tone, mark
from faultbridge.presentation.wording import action_text

FINAL = frozenset({"resolved", "expired"})
PAGE_TEXTS = {
    "opened": "A repair is needed and runs or waits",
    "approval": "An approval is required",
    "stopped": "Automation stopped: an operator is needed",
    "escalated": "The case is escalated: an operator is needed",
    "isolation": "The node could not be isolated",
}
"""The subjects of pages by kind."""


@dataclass(frozen=True, slots=True)
class SentPage:
    """A page (notification to operators) about a case: its kind, its state, and when it was last sent."""

    kind: str
    state: str
    sent_at: datetime

    @property
    def meaning(self) -> str:
        """The subject of the page in words."""
        return PAGE_TEXTS.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class CasePage:
    """The content that the console and the report file show about one case."""

    cluster: str
    node: str
    case_id: str
    status: Mark
    severity: Mark
    code: str
    component: str
    meaning: str
    opened_at: datetime
    closed_at: datetime | None
    duration: str
    facts: tuple[tuple[str, str], ...]
    related: tuple[tuple[str, str], ...]
    incident: str | None
    answers: tuple[Answer, ...]
    waits: tuple[Wait, ...]
    phases: Chart
    lanes: Chart
    pages: tuple[SentPage, ...]
    rows: tuple[EntryRow, ...]
    older: bool

    @property
    def live(self) -> bool:
        """Whether the case is not closed, so that it may still change."""
        return self.closed_at is None

    @property
    def refused_because(self) -> str:
        """Why the node was not repaired, or what delayed its repair; "" if neither applies."""
        return next((" ".join(one.sentences) for one in self.answers if one.is_refusal), "")


def case_page(facts: CaseFacts, pages: Sequence[Document], now: datetime, *, older: bool) -> CasePage:
    """Return the page of a case.

    `pages` are the notifications that operators got about the case. `older` states that the case has entries
    before those in `facts`.
    """
    case, rows = facts.case, entry_rows(facts.entries)
    closed = from_text(str(case["closed_at"])) if case["closed_at"] else None
    end = closed or max([now, *(row.at for row in rows)])
    phases = phase_lanes(case, facts.entries, end)
    opened = from_text(str(case["opened_at"]))
    start = min([opened, *(bar.start for lane in phases for bar in lane.bars)])
    sent = tuple(_sent_page(one) for one in pages)
    status = mark(case["status"], CASE)
    detail = case["resolution"] or case["waiting_for"]
    return CasePage(
        cluster=str(case["cluster"]),
        node=str(case["node"]),
        case_id=str(case["case_id"]),
        status=replace(status, text=f"{status.text}: {str(detail).replace('_', ' ')}") if detail else status,
        severity=mark(case["severity"], SEVERITY),
        code=str(case["code"]),
        component=component_text(case["component"]),
        meaning=facts.meaning,
        opened_at=opened,
        closed_at=closed,
        duration=duration_text(case["age_ms"]),
        facts=_facts(case),
        related=_related(case),
        incident=case["incident"],
        answers=case_answers(facts),
        waits=case_waits(facts.entries),
        phases=make_chart(start, end, phases),
        lanes=make_chart(start, end, _lanes(facts, Span(start, end, running=closed is None), sent)),
        pages=sent,
        rows=rows,
        older=older,
    )


def _lanes(facts: CaseFacts, span: Span, pages: Iterable[SentPage]) -> tuple[Lane, ...]:
    conditions = () if facts.case["status"] in FINAL else facts.node["conditions"]
    sent = tuple(
        Bar(page.sent_at, page.sent_at, page.kind, Tone.WATCH, f"page {page.kind}, now {page.state}") for page in pages
    )
    return (
        status_lane("node", facts.entries, NODE_STATUS, NODE, span),
        *condition_lanes(facts.entries, conditions, span),
        status_lane("case", facts.entries, CASE_STATUS, CASE, span),
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


def _sent_page(page: Document) -> SentPage:
    return SentPage(str(page["kind"]), str(page["page_state"]), from_text(str(page["sent_at"])))


def _facts(case: Document) -> tuple[tuple[str, str], ...]:
    lost = case.get("gpu_time_lost_ms")
    rows = [
        ("Repair action", action_text(case["repair_action"])),
        ("Attempts", str(case["attempt"])),
        ("Rule", f"{case['rule']} (policy {case['policy']})"),
    ]
    if case["code"] == "operator.quarantine":
        rows = []  # the order decides, not the action and the rule of its code
    return tuple(rows) if lost is None else (*rows, ("GPU time lost", f"{lost / 3_600_000:.2f} GPU-hours"))


def _related(case: Document) -> tuple[tuple[str, str], ...]:
    named = (("Relapse of", case["relapse_of"]), ("Previous case", case["previous_case"]))
    return tuple((text, str(found)) for text, found in named if found)
