"""History: bars and lanes for charts, from the entries of a node or a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from faultbridge.model.event_data import plain
from faultbridge.model.times import from_text
from faultbridge.model.values import replace
from faultbridge.record.entry_text import component_text
from faultbridge.repair.registry.documents import Condition
from faultbridge.serve.presentation.entry_rows import Document, occurred_at, step_mark
from faultbridge.serve.presentation.tones import SEVERITY, Tone, mark

MAX_TICKS = 6
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86400
_STEPS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 56, 112, 365, 730, 3650)),
)
MIN_SPAN = timedelta(seconds=1)


class Bar(Struct, frozen=True):
    """A span of time with a text; `running` if it has not ended, `target` links to its entry."""

    start: datetime
    end: datetime
    text: str
    tone: Tone
    detail: str = ""
    target: str = ""
    running: bool = False

    @property
    def description(self) -> str:
        """What the bar shows, in words: its text, its span of time, and its detail."""
        start, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (self.start, self.end))
        span = f"since {start}" if self.running else f"{start} to {end}" if end != start else f"at {start}"
        return ", ".join(one for one in (self.text, span, self.detail) if one)


class Lane(Struct, frozen=True):
    """A named row of bars; `note` is a short text beside the name."""

    name: str
    bars: tuple[Bar, ...]
    note: str = ""


class Tick(Struct, frozen=True):
    """A labeled position on the time axis, as a share from 0 to 1."""

    share: float
    text: str


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
        found.append(Tick((at - start.timestamp()) / span, _tick_text(datetime.fromtimestamp(at, UTC), step)))
        at += step
    return tuple(found)


def _tick_text(at: datetime, step: int) -> str:
    if step >= _DAY:
        return f"{at:%Y-%m-%d}" if step >= 28 * _DAY else f"{at:%b} {at.day}"
    if step >= _MINUTE:
        return f"{at:%H:%M}" if (at.hour, at.minute) != (0, 0) else f"{at:%b} {at.day}"
    return f"{at:%H:%M:%S}"


NODE_STATUS, CASE_STATUS, STEP = "Node Status Change", "Case Status Change", "Node Replacement Step"
NOTE = "Node Note Recorded"
DETECTED, UPDATED, CLEARED = "Node Fault Detected", "Node Fault Updated", "Node Fault Cleared"


class Span(Struct, frozen=True):
    """The span of time that a page shows; `running` if it reaches the present."""

    start: datetime
    end: datetime
    running: bool = True


def of_type(entries: Iterable[Document], *kinds: str) -> tuple[Document, ...]:
    """Return the entries of the given types, in the order in which they happened."""
    return tuple(sorted((one for one in entries if one["metadata"]["event_type"] in kinds), key=occurred_at))


def status_lane(name: str, entries: Iterable[Document], kind: str, tones: Mapping[str, Tone], span: Span) -> Lane:
    """Return a lane with one bar for each period in a status; a resolved case's last bar has no length."""
    changes = of_type(entries, kind)
    bars = list(_first_bar(changes, tones, span))
    for number, change in enumerate(changes):
        status = change["data"].get("to")
        last = number + 1 == len(changes)
        end = span.end if last else occurred_at(changes[number + 1])
        shown = mark(status, tones)
        final = kind == CASE_STATUS and status in {"resolved", "expired"}
        start = occurred_at(change)
        bars.append(
            Bar(
                start,
                start if final else max(end, start),
                shown.text,
                shown.tone,
                _why(change),
                _target(change),
                running=last and span.running and not final,
            )
        )
    return Lane(name, tuple(bars))


def _first_bar(changes: Sequence[Document], tones: Mapping[str, Tone], span: Span) -> Iterator[Bar]:
    if changes and changes[0]["data"].get("from"):
        before = mark(changes[0]["data"]["from"], tones)
        yield Bar(span.start, max(occurred_at(changes[0]), span.start), before.text, before.tone)


def condition_lanes(entries: Iterable[Document], active: Iterable[Condition], span: Span) -> tuple[Lane, ...]:
    """Return one lane a condition, with a bar from each detection to its end; `active` adds earlier ones."""
    open_bars: dict[str, tuple[datetime, Mapping[str, Any], str]] = {}
    for condition in active:
        recorded = plain(condition)
        open_bars[_condition_name(recorded)] = (condition.since, recorded, "")
    closed: dict[str, list[Bar]] = {name: [] for name in open_bars}
    started: dict[str, tuple[datetime, Mapping[str, Any], str]] = {}
    for entry in of_type(entries, DETECTED, UPDATED, CLEARED):
        data, name = entry["data"], _condition_name(entry["data"])
        closed.setdefault(name, [])
        if entry["metadata"]["event_type"] == CLEARED:
            since, known, target = started.pop(name, (_since(data, entry), data, _target(entry)))
            closed[name].append(_condition_bar(since, occurred_at(entry), known, target))
        else:
            since = started[name][0] if name in started else _since(data, entry)
            started[name] = (since, data, _target(entry))
    for name, (since, known, target) in (open_bars | started).items():
        still = name in open_bars or not span.running
        if still:
            closed[name].append(_condition_bar(since, span.end, known, target, running=span.running))
    return tuple(Lane(name, tuple(bars)) for name, bars in closed.items() if bars)


def _condition_bar(
    since: datetime, until: datetime, condition: Mapping[str, Any], target: str, *, running: bool = False
) -> Bar:
    reporters = ", ".join(map(str, condition.get("reporters") or ()))
    detail = f"{condition.get('message') or ''} (reported by {reporters or 'an unknown source'})".strip()
    shown = mark(condition.get("severity"), SEVERITY)
    return Bar(since, max(since, until), f"{shown.text}: {reporters}", shown.tone, detail, target, running=running)


def _condition_name(condition: Mapping[str, Any]) -> str:
    return f"{condition.get('code')} {component_text(condition.get('component'))}".strip()


def _since(data: Mapping[str, Any], entry: Document) -> datetime:
    since = data.get("since")
    return from_text(str(since)) if since else occurred_at(entry)


def attempt_lanes(entries: Iterable[Document]) -> tuple[Lane, ...]:
    """Return one lane for each attempt number, with one bar for each repair step."""
    admitted = {
        (change["metadata"]["case_id"], change["data"].get("attempt")): occurred_at(change)
        for change in of_type(entries, CASE_STATUS)
        if change["data"].get("to") == "in_progress"
    }
    steps: dict[int, list[Bar]] = {}
    ends: dict[tuple[object, object], datetime] = {}
    for entry in of_type(entries, STEP):
        data, at = entry["data"], occurred_at(entry)
        bars = steps.setdefault(int(data.get("attempt") or 0), [])
        of = (entry["metadata"]["case_id"], data.get("attempt"))
        start = ends.get(of) or min(admitted.get(of, at), at)
        ends[of] = at
        shown = step_mark(data)
        text = f"{str(data.get('step')).replace('_', ' ')}: {shown.text}"
        bars.append(Bar(start, at, text, shown.tone, _why(entry), _target(entry)))
    return tuple(Lane(f"attempt {number}", tuple(bars)) for number, bars in steps.items())


def instance_lane(entries: Iterable[Document], span: Span) -> Lane:
    """Return a lane with one bar for each instance and boot of a node, as the entries record them."""
    ordered = sorted(entries, key=occurred_at)
    known = [(occurred_at(one), one["data"].get("incarnation"), _target(one)) for one in ordered]
    changes: list[tuple[datetime, Mapping[str, Any], str]] = []
    for at, incarnation, target in known:
        if incarnation and (not changes or changes[-1][1] != incarnation):
            changes.append((at if changes else span.start, incarnation, target))
    bars = []
    for number, (at, incarnation, target) in enumerate(changes):
        last = number + 1 == len(changes)
        end = span.end if last else changes[number + 1][0]
        text = f"{incarnation.get('instance_id') or 'no instance'}"
        detail = f"instance {incarnation.get('instance')}, boot {incarnation.get('boot')}"
        tone = Tone.OFF if number % 2 else Tone.WAIT
        bars.append(Bar(at, max(end, at), text, tone, detail, target, running=last and span.running))
    return Lane("instance", tuple(bars))


def _why(entry: Document) -> str:
    data = entry["data"]
    return str(data.get("reason") or data.get("operation") or "")


def _target(entry: Document) -> str:
    return f"#e-{entry['metadata']['event_id']}"
