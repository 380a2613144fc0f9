"""History: bars and lanes for charts, from the entries of a node or a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_text
from faultbridge.ledger.entry_text import component_text
from faultbridge.presentation.entry_rows import Document, occurred_at, step_mark
from faultbridge.presentation.lanes import Bar, Lane
from faultbridge.presentation.tones import SEVERITY, Tone, mark

NODE_STATUS, CASE_STATUS, STEP = "Node Status Change", "Case Status Change", "Node Replacement Step"
NOTE = "Node Note Recorded"
DETECTED, UPDATED, CLEARED = "Node Fault Detected", "Node Fault Updated", "Node Fault Cleared"


@dataclass(frozen=True, slots=True)
class Span:
    """The span of time that a page shows.

    `running` is True if the span reaches the present. The bar of a status or condition that has not ended is then
    marked as running.
    """

    start: datetime
    end: datetime
    running: bool = True


def of_type(entries: Iterable[Document], *kinds: str) -> tuple[Document, ...]:
    """Return the entries of the given types, in the order in which they happened."""
    return tuple(sorted((one for one in entries if one["metadata"]["event_type"] in kinds), key=occurred_at))


def status_lane(name: str, entries: Iterable[Document], kind: str, tones: Mapping[str, Tone], span: Span) -> Lane:
    """Return a lane with one bar for each period in a status.

    The changes of status come from the entries of the type `kind`. Each bar ends at the next change, and the last bar
    at the end of the span. If a case was resolved or expired, the bar of this final status has no length.
    """
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


def condition_lanes(entries: Iterable[Document], active: Iterable[Document], span: Span) -> tuple[Lane, ...]:
    """Return one lane for each condition, with one bar from each detection until the condition is cleared.

    Each bar shows the reporters of the condition. `active` are the node's conditions now. They add lanes for conditions
    that began before the first entry. If the span reaches the present, a condition that was not cleared is shown only
    if it is in `active`.
    """
    open_bars: dict[str, tuple[datetime, Mapping[str, Any], str]] = {}
    for condition in active:
        open_bars[_condition_name(condition)] = (from_text(str(condition["since"])), condition, "")
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
    """Return one lane for each attempt number, with one bar for each repair step.

    The first bar begins at the start of the attempt, if an entry records it, and each other bar at the end of the
    previous step. A bar ends with the outcome of its step. Attempts of different cases with the same number share a
    lane.
    """
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
