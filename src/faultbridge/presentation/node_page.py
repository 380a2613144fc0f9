"""Node page: the current state of a node, and its status, conditions, case and instances over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text
from faultbridge.presentation.cases.case_answers import Answer
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.entry_rows import Document, EntryRow, entry_rows
from faultbridge.presentation.history import (
    CASE_STATUS,
    NODE_STATUS,
    Span,
    attempt_lanes,
    condition_lanes,
    instance_lane,
    status_lane,
)
from faultbridge.presentation.job_rows import JobRow, job_lanes, job_rows
from faultbridge.presentation.lanes import Chart, Lane, make_chart
from faultbridge.presentation.node_answers import node_answers
from faultbridge.presentation.tones import CASE, NODE, SEVERITY, Mark, mark


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """An active condition: its severity, code and component, its message and reporters, and its start."""

    severity: Mark
    code: str
    component: str
    message: str
    reporters: str
    count: int
    since: datetime


@dataclass(frozen=True, slots=True)
class NodePage:
    """The content of the page of a node."""

    cluster: str
    node: str
    status: Mark
    facts: tuple[tuple[str, str], ...]
    conditions: tuple[ConditionRow, ...]
    case_id: str | None
    case_status: Mark | None
    last_case: str | None
    chart: Chart
    jobs: tuple[JobRow, ...]
    rows: tuple[EntryRow, ...]
    older: bool
    live: bool
    unlisted_jobs: int = 0
    answers: tuple[Answer, ...] = ()


def node_page(
    node: Document,
    entries: Sequence[Document],
    span: Span,
    *,
    older: bool,
    jobs: Sequence[Document] = (),
    followed: int = 0,
    case: CaseFacts | None = None,
) -> NodePage:
    """Return the page of a node; `older` states that the span has entries before those in `entries`.

    `followed` is the number of the node's followed jobs. `jobs` are the first of these, sorted by id. `case` has the
    facts of the node's live case, or of its last case if none is live. It is None if the node had no case.
    """
    rows, live = entry_rows(entries), node["case"]
    if older and rows:
        span = Span(max(span.start, rows[0].at), span.end, span.running)
    return NodePage(
        cluster=str(node["cluster"]),
        node=str(node["node"]),
        status=mark(node["status"], NODE),
        facts=_facts(node),
        conditions=tuple(map(_condition, node["conditions"])),
        case_id=live["case_id"] if live else None,
        case_status=mark(live["status"], CASE) if live else None,
        last_case=node["last_case"],
        chart=make_chart(span.start, span.end, _lanes(node, entries, span, jobs)),
        jobs=job_rows(jobs),
        rows=rows,
        older=older,
        live=live is not None,
        answers=tuple(node_answers(node, case)),
        unlisted_jobs=max(followed - len(jobs), 0),
    )


def _lanes(node: Document, entries: Sequence[Document], span: Span, jobs: Sequence[Document]) -> tuple[Lane, ...]:
    return (
        status_lane("status", entries, NODE_STATUS, NODE, span),
        *condition_lanes(entries, node["conditions"] if span.running else (), span),
        status_lane("case", entries, CASE_STATUS, CASE, span),
        *attempt_lanes(entries),
        instance_lane(entries, span),
        *job_lanes(jobs, str(node["node"]), span),
    )


def _condition(condition: Document) -> ConditionRow:
    return ConditionRow(
        severity=mark(condition["severity"], SEVERITY),
        code=str(condition["code"]),
        component=component_text(condition["component"]),
        message=str(condition["message"]),
        reporters=", ".join(map(str, condition["reporters"])),
        count=int(condition["count"]),
        since=from_text(str(condition["since"])),
    )


def _facts(node: Document) -> tuple[tuple[str, str], ...]:
    ignored = node["ignored"]
    by = f"by {ignored['by']}: {ignored['reason']}" if ignored else "no"
    domains = ", ".join(f"{kind} {name}" for kind, name in sorted(node["domains"].items()))
    return (
        ("Instance", f"{node['instance_id'] or 'none'} (instance {node['instance']}, boot {node['boot']})"),
        ("Type", str(node["instance_type"] or "unknown")),
        ("Group", str(node["group"] or "-")),
        ("Failure domains", domains or str(node["domain"] or "-")),
        ("Isolation", str(node["isolation"]).replace("_", " ")),
        ("Verified", "no: never verified by Faultbridge" if node["unverified"] else "yes"),
        ("Opted out of repair", by),
        ("Former instances", ", ".join(node["former_instances"]) or "none"),
    )
