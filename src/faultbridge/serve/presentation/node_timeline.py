"""Node timeline: a row a node, worst first, with the states of its cases on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from faultbridge.model.event_data import ClusterStatusData
from faultbridge.record.entry_text import in_phase_order
from faultbridge.repair.registry.documents import Case, Incident, Node
from faultbridge.serve.presentation.entry_rows import Entries, entries_with
from faultbridge.serve.presentation.grid import natural_order
from faultbridge.serve.presentation.history import Bar, Chart, Lane, Span, make_chart
from faultbridge.serve.presentation.tones import CLUSTER, NODE, Tone, mark

MAX_ROWS = 30
WORST = (Tone.BAD, Tone.WAIT, Tone.WORK, Tone.WATCH, Tone.OFF, Tone.GOOD)
"""Tones, the one that needs most attention first."""

_STATES: Mapping[str, tuple[str, Tone]] = {
    "detected": ("detected", Tone.WATCH),
    "open": ("waits", Tone.WAIT),
    "queued": ("waits", Tone.WAIT),
    "absorbed": ("waits for an incident", Tone.WAIT),
    "escalated": ("needs an operator", Tone.BAD),
}
"""What a phase of a case is called in the row of its node; every other phase is a repair."""


def node_timeline(
    cases: Sequence[Case], nodes: Iterable[Node], incidents: Iterable[Incident], entries: Entries, span: Span
) -> tuple[Chart, int]:
    """Return the states of nodes over a span of time, and how many nodes with a state are not listed."""
    bars: dict[str, list[Bar]] = {}
    for case in sorted(cases, key=lambda one: one.opened_at):
        bars.setdefault(case.node, []).extend(_case_bars(case))
    now = {node.node: node for node in nodes}
    for node in now.values():
        if node.case is None or not bars.get(node.node):
            bars.setdefault(node.node, []).append(_status_bar(node, span))
    bars = {name: [one for one in own if one.end >= span.start and one.start <= span.end] for name, own in bars.items()}

    def urgency(name: str) -> tuple[object, ...]:
        worst = min((WORST.index(one.tone) for one in bars[name] if one.running), default=len(WORST))
        return name not in now, worst, natural_order(name)

    ordered = sorted((name for name in bars if bars[name]), key=urgency)
    lanes = (
        Lane("all nodes", tuple(_cluster_bars(entries, span))),
        *(Lane(f"incident {one.domain.name}", (_incident_bar(one, span),)) for one in incidents),
        *(Lane(name, tuple(bars[name]), node=name) for name in ordered[:MAX_ROWS]),
    )
    return make_chart(span.start, span.end, lanes), len(ordered[MAX_ROWS:])


def _case_bars(case: Case) -> Iterator[Bar]:
    """Yield a bar for each state of a case, from the lengths of its phases."""
    start, phases = case.opened_at, in_phase_order(case.phases)
    at = start
    merged: list[tuple[str, Tone, datetime, datetime]] = []
    for name, length in phases:
        text, tone = _STATES.get(name, ("in repair", Tone.WORK))
        end = at + timedelta(milliseconds=length)
        if merged and merged[-1][0] == text:
            merged[-1] = (text, tone, merged[-1][2], end)
        elif length:
            merged.append((text, tone, at, end))
        at = end
    for number, (text, tone, begin, end) in enumerate(merged, 1):
        running = case.closed_at is None and number == len(merged)
        yield Bar(begin, end, text, tone, case.code, running=running, case_id=case.case_id)


def _status_bar(node: Node, span: Span) -> Bar:
    since = min((one.since for one in node.conditions), default=span.start)
    state = mark(node.status, NODE)
    detail = ", ".join(one.code for one in node.conditions)
    return Bar(since, max(span.end, since), state.text, state.tone, detail, running=span.running)


def _cluster_bars(entries: Entries, span: Span) -> Iterator[Bar]:
    changes = entries_with(entries, ClusterStatusData)
    for number, change in enumerate(changes):
        last = number + 1 == len(changes)
        end = span.end if last else changes[number + 1].at
        counts = change.data.counts.items()
        text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)
        tone = mark(change.data.to, CLUSTER).tone
        yield Bar(change.at, max(end, change.at), text, tone, target=change.target, running=last and span.running)


def _incident_bar(incident: Incident, span: Span) -> Bar:
    end = incident.closed_at or max(span.end, incident.opened_at)
    text = f"{incident.affected} of {incident.domain_nodes} nodes"
    return Bar(incident.opened_at, end, text, Tone.BAD, incident.reason, running=incident.closed_at is None)
