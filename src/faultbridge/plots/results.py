"""Results: the charts of a lab comparison of repair systems, and of a back-test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from faultbridge.plots.charts import Bar, Point, points, stacked_bars

Document = Mapping[str, Any]
VERDICTS = ("right", "needless", "undetermined", "missed")


def comparison_plots(systems: Sequence[Document], marked: str) -> dict[str, str]:
    """Return the two charts of a lab comparison as SVG, by file name.

    `systems` has the results of each compared repair system. One chart shows the lost GPU-hours by cause. The other
    chart shows needless evictions against lost GPU-hours, and highlights the systems whose name starts with `marked`.
    """
    bars = [
        Bar(one["system"], _readable(one["lost_by_cause"]), one["margins"].get("lost_gpu_hours")) for one in systems
    ]
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


def backtest_plots(clusters: Sequence[Document]) -> dict[str, str]:
    """Return two charts for each cluster of a back-test as SVG, by file name.

    One chart counts the repair actions by kind. The other chart shows how many repairs were right, needless,
    undetermined or missed. Both charts compare the recorded decisions with those of the tested policy.
    """
    found = {}
    for one in clusters:
        pairs = {"record": one["recorded"], "policy": one["replayed"]}
        actions = [Bar(name, _readable(totals["actions"])) for name, totals in pairs.items()]
        verdicts = [Bar(name, {verdict: totals[verdict] for verdict in VERDICTS}) for name, totals in pairs.items()]
        found[f"{one['cluster']}-actions.svg"] = stacked_bars(f"{one['cluster']}: repair actions", actions)
        found[f"{one['cluster']}-repairs.svg"] = stacked_bars(f"{one['cluster']}: repairs, right or not", verdicts)
    return found


def write_plots(folder: Path, plots: Mapping[str, str]) -> None:
    """Write charts to a folder, by file name; the folder is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plots.items():
        (folder / name).write_text(text, encoding="utf-8")


def _readable(values: Mapping[str, float]) -> dict[str, float]:
    return {name.replace("_", " "): value for name, value in values.items()}
