"""Areas: stacked area charts of a cluster's nodes by status, and of an incident's affected nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.model.event_data import ClusterIncidentData, ClusterStatusData
from faultbridge.serve.presentation.entry_rows import Entries, entries_with
from faultbridge.serve.presentation.history import MIN_SPAN, Tick, ticks
from faultbridge.serve.presentation.tones import NODE, Mark, Tone

LAYERS = (
    Mark("healthy", Tone.GOOD),
    Mark("degraded", Tone.WATCH),
    Mark("in repair", Tone.WORK),
    Mark("out of service", Tone.BAD),
    Mark("retired", Tone.OFF),
)
"""The layers from the bottom up, one for each tone of a node's status."""


class Sample(Struct, frozen=True):
    """The number of nodes in each status at the time `at`; the numbers apply until the next sample."""

    at: datetime
    counts: dict[str, int]


class Layer(Struct, frozen=True):
    """One layer of a stacked area chart: tone, outline (shares of the chart from its lower left), latest number."""

    mark: Mark
    points: tuple[tuple[float, float], ...]
    now: int


class Area(Struct, frozen=True):
    """A stacked area chart over one span of time; `highest` is the largest total of nodes, at least 1."""

    start: datetime
    end: datetime
    highest: int
    layers: tuple[Layer, ...]

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """At most seven labeled times on the time axis, at round values such as full hours."""
        return ticks(self.start, self.end)


def cluster_area(entries: Entries, start: datetime, end: datetime) -> Area | None:
    """Return the chart of a cluster's nodes by status up to `end`, or None without a change of status."""
    changes = entries_with(entries, ClusterStatusData)
    return _area([Sample(one.at, one.data.counts) for one in changes], start, end)


def incident_area(entries: Entries, start: datetime, end: datetime) -> Area | None:
    """Return the chart of an incident's affected nodes up to `end`, or None without a change of it."""
    changes = entries_with(entries, ClusterIncidentData)
    samples = [Sample(one.at, {"failed": one.data.nodes.count}) for one in changes]
    return _area(samples, start, end)


def _area(samples: Sequence[Sample], start: datetime, end: datetime) -> Area | None:
    end = max(end, start + MIN_SPAN)
    shown = [one for one in samples if one.at <= end]
    if not shown:
        return None
    highest = max(sum(one.counts.values()) for one in shown) or 1
    layers, below = [], [0] * len(shown)
    for shape in LAYERS:
        own = [sum(number for name, number in one.counts.items() if _tone(name) is shape.tone) for one in shown]
        if any(own):
            above = [base + number for base, number in zip(below, own, strict=True)]
            layers.append(Layer(shape, _outline(shown, below, above, (start, end), highest), own[-1]))
            below = above
    return Area(start, end, highest, tuple(layers))


def _tone(name: str) -> Tone:
    return NODE.get(name, Tone.BAD)


def _outline(
    samples: Sequence[Sample], below: Sequence[int], above: Sequence[int], span: tuple[datetime, datetime], highest: int
) -> tuple[tuple[float, float], ...]:
    start, end = span

    def share(at: datetime) -> float:
        return min(max((at - start) / (end - start), 0.0), 1.0)

    edges = [share(one.at) for one in samples] + [1.0]
    top = [(x, above[n] / highest) for n in range(len(samples)) for x in (edges[n], edges[n + 1])]
    bottom = [(x, below[n] / highest) for n in range(len(samples)) for x in (edges[n], edges[n + 1])]
    return (*top, *reversed(bottom))
