"""History: bars and lanes for charts, from the entries of a node or a case, and the states of all nodes over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from msgspec import Struct

from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import (
    CaseStatusData,
    ClusterStatusData,
    FaultData,
    Incarnation,
    NodeStatusData,
    ReplacementStepData,
)
from faultbridge.model.values import replace
from faultbridge.record.entry_text import component_text, in_phase_order
from faultbridge.repair.registry.documents import Case, Condition, Incident, Node
from faultbridge.serve.presentation.entry_rows import Entries, ReadEntry, entries_with, step_mark
from faultbridge.serve.presentation.grid import natural_order
from faultbridge.serve.presentation.tones import CLUSTER, NODE, SEVERITY, Tone, mark

Moved = TypeVar("Moved", NodeStatusData, CaseStatusData)
T = TypeVar("T")
MAX_TICKS = 6
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86400
_STEPS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 56, 112, 365, 730, 3650)),
)
MIN_SPAN = timedelta(seconds=1)
ENTRY_TIME: Callable[[ReadEntry[Any]], datetime] = attrgetter("at")


class Bar(Struct, frozen=True):
    """A span of time with a text; `running` if it has not ended. It links to an entry (`target`) or to a case."""

    start: datetime
    end: datetime
    text: str
    tone: Tone
    detail: str = ""
    target: str = ""
    running: bool = False
    case_id: str = ""

    @property
    def description(self) -> str:
        """What the bar shows, in words: its text, its span of time, and its detail."""
        start, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (self.start, self.end))
        span = f"since {start}" if self.running else f"{start} UTC to {end}" if end != start else f"at {start}"
        return ", ".join(one for one in (self.text, f"{span} UTC", self.detail) if one)


class Lane(Struct, frozen=True):
    """A named row of bars; `note` is a short text beside the name, `node` the node that it is about."""

    name: str
    bars: tuple[Bar, ...]
    note: str = ""
    node: str = ""


class Tick(Struct, frozen=True):
    """A labeled time on the time axis, with its position as a share from 0 to 1."""

    share: float
    text: str
    at: datetime


class Chart(Struct, frozen=True):
    """A chart of lanes (named rows of bars) on a common time axis; `end` is later than `start`."""

    start: datetime
    end: datetime
    lanes: tuple[Lane, ...]

    def share(self, at: datetime) -> float:
        """Return the position of a time on the axis, from 0 (`start`) to 1 (`end`), clipped."""
        return min(max((at - self.start) / (self.end - self.start), 0.0), 1.0)

    @property
    def running(self) -> bool:
        """Whether any bar continues at the end of the span."""
        return any(bar.running for lane in self.lanes for bar in lane.bars)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """At most seven labeled times on the time axis, at round values such as full hours."""
        return ticks(self.start, self.end)


def make_chart(start: datetime, end: datetime, lanes: Iterable[Lane]) -> Chart:
    """Return a chart of lanes, clipped to a span of at least one second, without empty lanes."""
    end = max(end, start + MIN_SPAN)
    clipped = (replace(lane, bars=tuple(_clip(lane.bars, start, end))) for lane in lanes)
    return Chart(start, end, tuple(lane for lane in clipped if lane.bars))


def _clip(bars: Sequence[Bar], start: datetime, end: datetime) -> Iterable[Bar]:
    for bar in bars:
        if bar.end >= start and bar.start <= end:
            yield replace(bar, start=max(bar.start, start), end=min(max(bar.end, bar.start), end))


def ticks(start: datetime, end: datetime) -> tuple[Tick, ...]:
    """Return at most seven labeled times between two times: round values at equal distances."""
    span = (end - start).total_seconds()
    step = next((one for one in _STEPS if span / one <= MAX_TICKS), _STEPS[-1])
    first = -(-start.timestamp() // step) * step
    found: list[Tick] = []
    at = first
    while at <= end.timestamp() and len(found) <= MAX_TICKS:
        time = datetime.fromtimestamp(at, UTC)
        found.append(Tick((at - start.timestamp()) / span, _tick_text(time, step), time))
        at += step
    return tuple(found)


def _tick_text(at: datetime, step: int) -> str:
    if step >= _DAY:
        return f"{at:%Y-%m-%d}" if step >= 28 * _DAY else f"{at:%b} {at.day}"
    if step >= _MINUTE:
        return f"{at:%H:%M}" if (at.hour, at.minute) != (0, 0) else f"{at:%b} {at.day}"
    return f"{at:%H:%M:%S}"


class Span(Struct, frozen=True):
    """The span of time that a page shows; `running` if it reaches the present."""

    start: datetime
    end: datetime
    running: bool = True


def periods(changes: Sequence[T], at: Callable[[T], datetime], end: datetime) -> Iterator[tuple[T, datetime, bool]]:
    """Yield each change with the time until which it holds, and whether it is the last, which holds until `end`."""
    for number, change in enumerate(changes, 1):
        is_last = number == len(changes)
        yield change, max(end if is_last else at(changes[number]), at(change)), is_last


def status_lane(name: str, entries: Entries, kind: type[Moved], tones: Mapping[str, Tone], span: Span) -> Lane:
    """Return a lane with one bar for each period in a status; a resolved case's last bar has no length."""
    changes = entries_with(entries, kind)
    bars = list(_first_bar(changes, tones, span))
    for change, until, last in periods(changes, ENTRY_TIME, span.end):
        shown = mark(change.data.to, tones)
        final = change.metadata.event_type == EntryType.CASE_STATUS and change.data.to in {"resolved", "expired"}
        end = change.at if final else until
        running = last and span.running and not final
        bars.append(Bar(change.at, end, shown.text, shown.tone, change.data.reason, change.target, running=running))
    return Lane(name, tuple(bars))


def _first_bar(changes: Sequence[ReadEntry[Moved]], tones: Mapping[str, Tone], span: Span) -> Iterator[Bar]:
    if changes and changes[0].data.from_:
        before = mark(changes[0].data.from_, tones)
        yield Bar(span.start, max(changes[0].at, span.start), before.text, before.tone)


def condition_lanes(entries: Entries, active: Iterable[Condition], span: Span) -> tuple[Lane, ...]:
    """Return one lane a condition, with a bar from each detection to its end; `active` adds earlier ones."""
    open_bars = {_condition_name(one): _Start(one.since, one) for one in active}
    closed: dict[str, list[Bar]] = {name: [] for name in open_bars}
    started: dict[str, _Start] = {}
    for entry in entries_with(entries, FaultData):
        data, name = entry.data, _condition_name(entry.data)
        closed.setdefault(name, [])
        start = _Start(data.since, data, entry.target)
        if entry.metadata.event_type == EntryType.FAULT_CLEARED:
            closed[name].append(_condition_bar(started.pop(name, start), entry.at))
        else:
            started[name] = replace(start, since=started[name].since) if name in started else start
    for name, found in (open_bars | started).items():
        if name in open_bars or not span.running:
            closed[name].append(_condition_bar(found, span.end, running=span.running))
    return tuple(Lane(name, tuple(bars)) for name, bars in closed.items() if bars)


class _Start(Struct, frozen=True):
    since: datetime
    condition: Condition | FaultData
    target: str = ""


def _condition_bar(start: _Start, until: datetime, *, running: bool = False) -> Bar:
    condition = start.condition
    reporters = ", ".join(condition.reporters)
    detail = f"{condition.message} (reported by {reporters or 'an unknown source'})".strip()
    shown = mark(condition.severity, SEVERITY)
    text, end = f"{shown.text}: {reporters}", max(start.since, until)
    return Bar(start.since, end, text, shown.tone, detail, start.target, running=running)


def _condition_name(condition: Condition | FaultData) -> str:
    return f"{condition.code} {component_text(condition.component)}".strip()


def attempt_lanes(entries: Entries) -> tuple[Lane, ...]:
    """Return one lane for each attempt number, with one bar for each repair step."""
    admitted = {
        (change.metadata.case_id, change.data.attempt): change.at
        for change in entries_with(entries, CaseStatusData)
        if change.data.to == "in_progress"
    }
    steps: dict[int, list[Bar]] = {}
    ends: dict[tuple[object, object], datetime] = {}
    for entry in entries_with(entries, ReplacementStepData):
        data, at = entry.data, entry.at
        bars = steps.setdefault(data.attempt, [])
        of = (entry.metadata.case_id, data.attempt)
        start = ends.get(of) or min(admitted.get(of, at), at)
        ends[of] = at
        shown = step_mark(data)
        text = f"{str(data.step).replace('_', ' ')}: {shown.text}"
        bars.append(Bar(start, at, text, shown.tone, data.reason or data.operation or "", entry.target))
    return tuple(Lane(f"attempt {number}", tuple(bars)) for number, bars in steps.items())


def instance_lane(entries: Entries, span: Span) -> Lane:
    """Return a lane with one bar for each instance and boot of a node, as the entries record them."""
    changes: list[tuple[datetime, Incarnation, str]] = []
    for entry in sorted(entries, key=lambda one: one.at):
        incarnation = getattr(entry.data, "incarnation", None)
        if incarnation and (not changes or changes[-1][1] != incarnation):
            changes.append((entry.at if changes else span.start, incarnation, entry.target))
    bars: list[Bar] = []
    for (at, incarnation, target), end, last in periods(changes, itemgetter(0), span.end):
        detail = f"instance {incarnation.instance}, boot {incarnation.boot}"
        tone = Tone.OFF if len(bars) % 2 else Tone.WAIT
        text = incarnation.instance_id or "no instance"
        bars.append(Bar(at, end, text, tone, detail, target, running=last and span.running))
    return Lane("instance", tuple(bars))


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
    for change, end, last in periods(entries_with(entries, ClusterStatusData), ENTRY_TIME, span.end):
        counts = change.data.counts.items()
        text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)
        tone = mark(change.data.to, CLUSTER).tone
        yield Bar(change.at, end, text, tone, target=change.target, running=last and span.running)


def _incident_bar(incident: Incident, span: Span) -> Bar:
    end = incident.closed_at or max(span.end, incident.opened_at)
    text = f"{incident.affected} of {incident.domain_nodes} nodes"
    return Bar(incident.opened_at, end, text, Tone.BAD, incident.reason, running=incident.closed_at is None)
