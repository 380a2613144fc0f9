"""Charts of the lab: lost GPU-hours by cause, and needless evictions against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.decide.backtest.plots import COLORS, WIDTH, Bar, Drawing, longest, readable, stacked_bars

Document = Mapping[str, Any]
PLOT_HEIGHT = 400


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a chart, with half the widths of its confidence intervals; `marked` has another color."""

    name: str
    x: float
    y: float
    margins: tuple[float, float] = (0.0, 0.0)
    marked: bool = False


def points(title: str, axes: tuple[str, str], found: Sequence[Point]) -> str:
    """Return a chart of at least one point as SVG, with numbers and a legend; axes start at zero."""
    drawing = Drawing(title, PLOT_HEIGHT)
    bottom, top, left = PLOT_HEIGHT - 48, 48, 70
    across = (WIDTH - left - 270) / longest(one.x + one.margins[0] for one in found)
    up = (bottom - top) / longest(one.y + one.margins[1] for one in found)
    drawing.add("path", d=f"M{left} {top}V{bottom}H{WIDTH - 250}", fill="none", class_="axis")
    drawing.add("text", axes[0], x=(left + WIDTH - 250) / 2, y=PLOT_HEIGHT - 12, text_anchor="middle")
    drawing.add("text", axes[1], x=16, y=(top + bottom) / 2, transform=f"rotate(-90 16 {(top + bottom) // 2})")
    for axis, value in (("x", 0.0), ("x", max(one.x for one in found)), ("y", max(one.y for one in found))):
        x, y = (left + value * across, bottom + 18) if axis == "x" else (left - 6, bottom - value * up + 4)
        drawing.add("text", f"{value:,.0f}", x=x, y=y, text_anchor="middle" if axis == "x" else "end")
    named = [one for one in sorted(found, key=lambda one: (one.x, one.y, one.name)) if one.name]
    for one in found:
        x, y, color = left + one.x * across, bottom - one.y * up, COLORS[2 if one.marked else 0]
        half_x, half_y = one.margins[0] * across, one.margins[1] * up
        cross = f"M{x - half_x:.1f} {y:.1f}H{x + half_x:.1f}M{x:.1f} {y - half_y:.1f}V{y + half_y:.1f}"
        drawing.add("path", d=cross, stroke=color)
        drawing.add("circle", cx=x, cy=y, r=5, fill=color)
    for row, one in enumerate(named):
        x, y = left + one.x * across, bottom - one.y * up
        drawing.add("text", f"{row + 1}", x=x + 7, y=y - 7 - 11 * (row % 2))
        drawing.add("text", f"{row + 1}  {one.name}", x=WIDTH - 240, y=top + 16 * row)
    return drawing.svg()


def comparison_plots(systems: Sequence[Document], marked: str) -> dict[str, str]:
    """Return charts of lost GPU-hours by cause, and of needless evictions against them, by file name."""
    bars = [Bar(one["system"], readable(one["lost_by_cause"]), one["margins"].get("lost_gpu_hours")) for one in systems]
    found = [
        Point(
            one["system"],
            one["lost_gpu_hours"],
            one["needless_evictions"],
            (one["margins"].get("lost_gpu_hours", 0.0), one["margins"].get("needless_evictions", 0.0)),
            one["system"].startswith(marked),
        )
        for one in systems
    ]
    axes = ("Lost GPU-hours", "Needless evictions")
    return {
        "lost-gpu-hours.svg": stacked_bars("Lost GPU-hours by cause, mean and 95 % confidence interval", bars),
        "needless-evictions.svg": points("Lost GPU-hours and needless evictions", axes, found),
    }
