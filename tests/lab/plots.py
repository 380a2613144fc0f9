"""Charts of the lab: lost GPU-hours by cause, and how they change with the share of faults that have a precursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from faultbridge.decide.backtest.plots import COLORS, WIDTH, Bar, Drawing, longest, readable, stacked_bars
from tests.lab.baselines import BASELINES, EKS

Document = Mapping[str, Any]
PLOT_HEIGHT = 380
MAX_STEPS = 8
SHOWN = 4
"""A chart shows no system that loses more than this number of times the fewest GPU-hours."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: points from left to right, each with half the height of its confidence interval."""

    name: str
    points: Sequence[tuple[float, float, float]]


def lines(title: str, axes: tuple[str, str], found: Sequence[Line]) -> str:
    """Return a chart of lines as SVG, with a legend; the axis from bottom to top starts at zero."""
    drawing = Drawing(title, PLOT_HEIGHT)
    bottom, top, left, right = PLOT_HEIGHT - 48, 48, 70, WIDTH - 270
    across = (right - left - 60) / longest(x for one in found for x, _, _ in one.points)
    highest = longest(y + half for one in found for _, y, half in one.points)
    up = (bottom - top) / highest
    drawing.add("text", axes[0], x=(left + right) / 2, y=PLOT_HEIGHT - 12, text_anchor="middle")
    drawing.add("text", axes[1], x=12, y=top - 6)
    step = next(one for one in _steps() if highest / one <= MAX_STEPS)
    for number in range(int(highest / step) + 1):
        y = bottom - number * step * up
        drawing.add("path", d=f"M{left} {y:.1f}H{right}", stroke="#e5e7eb")
        drawing.add("text", f"{number * step:,g}", x=left - 6, y=y + 4, text_anchor="end")
    for x in sorted({x for one in found for x, _, _ in one.points}):
        drawing.add("text", f"{x:g}", x=left + 30 + x * across, y=bottom + 18, text_anchor="middle")
    drawing.add("path", d=f"M{left} {top}V{bottom}H{right}", fill="none", class_="axis")
    for number, one in enumerate(found):
        color = COLORS[number % len(COLORS)]
        places = [(left + 30 + x * across + 4 * number, bottom - y * up, half * up) for x, y, half in one.points]
        joined = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in places)
        drawing.add("path", d=f"M{joined}", fill="none", stroke=color, stroke_width=2)
        for x, y, half in places:
            drawing.add("path", d=f"M{x:.1f} {y - half:.1f}V{min(bottom, y + half):.1f}", stroke=color)
            drawing.add("circle", cx=x, cy=y, r=4, fill=color)
        drawing.add("rect", x=right + 16, y=top + 20 * number, width=12, height=12, fill=color)
        drawing.add("text", one.name, x=right + 34, y=top + 20 * number + 11)
    return drawing.svg()


def _steps() -> Iterator[float]:
    yield from (digit * 10.0**power for power in count(-2) for digit in (1, 2, 5))


def comparison_plots(systems: Sequence[Document]) -> dict[str, str]:
    """Return charts by file name: losses by cause without precursors, and a curve if several shares were compared."""
    first = [one for one in systems if one["precursors"] == systems[0]["precursors"]]
    limit = SHOWN * min(one["lost_gpu_hours"] for one in first)
    shown = [one for one in first if one["lost_gpu_hours"] <= limit]
    bars = [Bar(one["system"], readable(one["lost_by_cause"]), one["margins"].get("lost_gpu_hours")) for one in shown]
    found = {"lost-gpu-hours.svg": stacked_bars("Lost GPU-hours by cause, mean and 95 % confidence interval", bars)}
    if len(first) < len(systems):
        names = [one["system"] for one in shown if one["system"] == EKS or one["system"] not in BASELINES]
        title = "Lost GPU-hours by the share of faults with a precursor, mean and 95 % confidence interval"
        axes = "Faults with a precursor, in percent", "Percent of what eks-auto-repair loses"
        found["precursors.svg"] = lines(title, axes, [_curve(name, systems) for name in names])
    return found


def _curve(name: str, systems: Sequence[Document]) -> Line:
    of_eks = [(one["precursors"], one["against_eks"]["lost_gpu_hours"]) for one in systems if one["system"] == name]
    return Line(name, [(share, 100 * one["ratio"], 100 * (one["margin"] or 0.0)) for share, one in of_eks])
