"""Node page: the current state of a node, and its status, conditions, case and instances over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from faultbridge.decide.answers import sentence, why_text, words
from faultbridge.model.event_data import CaseStatusData, NodeStatusData
from faultbridge.record.entry_text import component_text
from faultbridge.repair.registry.documents import Node, ShownNode
from faultbridge.repair.registry.job_views import Job
from faultbridge.serve.presentation.case_answers import (
    DONE_SO_FAR,
    HAPPENED,
    NOT_REPAIRED,
    NOW,
    Answer,
    CaseFacts,
    case_answers,
)
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, entry_rows
from faultbridge.serve.presentation.grid import IN_SERVICE
from faultbridge.serve.presentation.history import (
    Chart,
    Lane,
    Span,
    attempt_lanes,
    condition_lanes,
    instance_lane,
    make_chart,
    status_lane,
)
from faultbridge.serve.presentation.job_page import job_lanes
from faultbridge.serve.presentation.tones import CASE, NODE, SEVERITY, Mark, mark

_OF_CASE = frozenset({HAPPENED, DONE_SO_FAR, NOW})


def node_answers(node: ShownNode, case: CaseFacts | None) -> Iterator[Answer]:
    """Yield the questions about a node with their answers; `case` is its live or last case, or None."""
    if node.case and case is not None:
        yield from (one for one in case_answers(case) if one.is_refusal or one.question in _OF_CASE)
        return
    yield Answer(HAPPENED, (*_what_happened(node), _last_case(case)))
    if node.status in IN_SERVICE and node.conditions:
        yield Answer(NOT_REPAIRED, (node.answer.what,))
    if node.answer.you:
        yield Answer(NOW, (node.answer.system,))


def _what_happened(node: Node) -> Iterator[str]:
    order = list(SEVERITY)
    faults = sorted(node.conditions, key=lambda one: order.index(one.severity) if one.severity in order
                    else len(order), reverse=True)  # fmt: skip
    if not faults:
        yield f"No fault of this node is active. Its status is {words(node.status)}."
        return
    worst = faults[0]
    component = component_text(worst.component)
    where = f" on {component}" if component not in {"", "node"} else ""
    since = f"{worst.since:%Y-%m-%d %H:%M} UTC"
    yield sentence(f"{worst.code} ({worst.severity}){where} since {since}: {worst.message or 'no message'}")
    if faults[1:]:
        number = len(faults) - 1
        yield f"{number} other fault{'s are' if number > 1 else ' is'} active: see the active conditions."


def _last_case(last: CaseFacts | None) -> str:
    if last is None:
        return "No case of this node is recorded."
    case = last.case
    closed = f" at {case.closed_at:%Y-%m-%d %H:%M} UTC" if case.closed_at else ""
    fault = f"{last.meaning or case.code} ({case.code}, {case.severity})"
    result = words(case.resolution or case.status)
    reason = f", {why_text(case.reason, case.failure, case.detail)}" if case.reason else ""
    return sentence(f"Its last case {case.case_id}, {fault}, was closed{closed}: {result}{reason}")


class NodePage(Struct, frozen=True):
    """The content of the page of a node."""

    node: ShownNode
    status: Mark
    facts: tuple[tuple[str, str], ...]
    case_status: Mark | None
    chart: Chart
    jobs: Sequence[Job]
    rows: tuple[EntryRow, ...]
    older: bool
    live: bool
    unlisted_jobs: int = 0
    answers: tuple[Answer, ...] = ()


def node_page(
    node: ShownNode,
    entries: Entries,
    span: Span,
    *,
    older: bool,
    jobs: Sequence[Job] = (),
    followed: int = 0,
    case: CaseFacts | None = None,
) -> NodePage:
    """Return the page of a node; `jobs` are the first of the `followed` jobs, `case` the live or last one."""
    rows, live = entry_rows(entries), node.case
    if older and rows:
        span = Span(max(span.start, rows[0].at), span.end, span.running)
    return NodePage(
        node=node,
        status=mark(node.status, NODE),
        facts=_facts(node),
        case_status=mark(live.status, CASE) if live else None,
        chart=make_chart(span.start, span.end, _lanes(node, entries, span, jobs)),
        jobs=jobs,
        rows=rows,
        older=older,
        live=live is not None,
        answers=tuple(node_answers(node, case)),
        unlisted_jobs=max(followed - len(jobs), 0),
    )


def _lanes(node: Node, entries: Entries, span: Span, jobs: Sequence[Job]) -> tuple[Lane, ...]:
    return (
        status_lane("status", entries, NodeStatusData, NODE, span),
        *condition_lanes(entries, node.conditions if span.running else (), span),
        status_lane("case", entries, CaseStatusData, CASE, span),
        *attempt_lanes(entries),
        instance_lane(entries, span),
        *job_lanes(jobs, node.node, span),
    )


def _facts(node: Node) -> tuple[tuple[str, str], ...]:
    ignored = node.ignored
    by = f"by {ignored.by}: {ignored.reason}" if ignored else "no"
    domains = ", ".join(f"{kind} {name}" for kind, name in sorted(node.domains.items()))
    cordoned = node.status in IN_SERVICE and node.isolation == "confirmed"
    return (
        ("Instance", f"{node.instance_id or 'none'} (instance {node.instance}, boot {node.boot})"),
        ("Type", str(node.instance_type or "unknown")),
        ("Group", str(node.group or "-")),
        ("Failure domains", domains or str(node.domain or "-")),
        ("Isolation", "in service, cordoned" if cordoned else node.isolation.replace("_", " ")),
        ("Verified", "no: never verified by Faultbridge" if node.unverified else "yes"),
        ("Opted out of repair", by),
        ("Former instances", ", ".join(node.former_instances) or "none"),
    )
