"""Lanes: charts with bars on a common time axis (swim lanes, Gantt), and the ticks of the axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.presentation.tones import Tone

MAX_TICKS = 6
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86400
_STEPS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 56, 112, 365, 730, 3650)),
)
MIN_SPAN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time with a text; `running` is True if the span has not ended.

    `target` is a link to the entry from which the bar was made, or empty.
    """

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


@dataclass(frozen=True, slots=True)
class Lane:
    """A named row of bars; `note` is a short text beside the name."""

    name: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """A labeled position on the time axis, as a share from 0 to 1."""

    share: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of lanes (named rows of bars) on a common time axis from `start` to `end`.

    `end` must be later than `start`; `make_chart` ensures this.
    """

    start: datetime
    end: datetime
    lanes: tuple[Lane, ...]

    def share(self, at: datetime) -> float:
        """Return the position of a time on the axis, from 0 (`start`) to 1 (`end`).

        A time before `start` has the position 0, and a time after `end` has the position 1.
        """
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
    """Return a chart of lanes from `start` to `end`; bars are clipped to this span of time.

    Bars outside the span, and lanes without bars, are omitted. The span is at least one second long.
    """
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
