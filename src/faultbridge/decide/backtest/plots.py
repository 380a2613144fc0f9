"""Plots: results of the back-test as SVG charts; standard library only, not for Lambda."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from faultbridge.decide.backtest.report import BacktestDocument

WIDTH, LEFT, RIGHT, ROW, HEAD = 860, 230, 110, 30, 62
COLORS = ("#2563eb", "#d97706", "#dc2626", "#7c3aed", "#059669", "#64748b")
STYLE = "text{font:13px system-ui,sans-serif;fill:#1f2937}.title{font-weight:600;font-size:15px}.axis{stroke:#9ca3af}"


@dataclass(frozen=True, slots=True)
class Bar:
    """One stacked bar; `margin` is half the width of the confidence interval of its sum, if there is one."""

    name: str
    parts: Mapping[str, float]
    margin: float | None = None

    @property
    def total(self) -> float:
        """The length of the bar: the sum of its parts."""
        return sum(self.parts.values())


@dataclass(slots=True)
class Drawing:
    """An SVG drawing of the charts' width, with a title."""

    title: str
    height: int
    elements: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str | None = None, **attributes: object) -> None:
        """Add an SVG element; `text_anchor` becomes the attribute `text-anchor`, and `class_` becomes `class`."""
        names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
        named = " ".join(f'{names[name]}="{_value(value)}"' for name, value in attributes.items())
        self.elements.append(f"<{tag} {named}/>" if text is None else f"<{tag} {named}>{escape(text)}</{tag}>")

    def svg(self) -> str:
        """Return the drawing as the text of an SVG file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img"'
        lines = [f'{head} aria-label="{escape(self.title)}">', f"<style>{STYLE}</style>"]
        lines.append(f'<rect width="{WIDTH}" height="{self.height}" fill="#ffffff"/>')
        lines.append(f'<text class="title" x="12" y="24">{escape(self.title)}</text>')
        return "\n".join([*lines, *self.elements, "</svg>"]) + "\n"


def stacked_bars(title: str, bars: Sequence[Bar]) -> str:
    """Return a chart of horizontal bars as SVG, with their totals and confidence intervals."""
    names = list(dict.fromkeys(name for bar in bars for name in bar.parts))
    drawing = Drawing(title, HEAD + ROW * len(bars) + 12)
    scale = (WIDTH - LEFT - RIGHT) / longest(bar.total + (bar.margin or 0.0) for bar in bars)
    for number, name in enumerate(names):
        x = 12 + number * (WIDTH - 24) / len(names)
        drawing.add("rect", x=x, y=36, width=12, height=12, fill=COLORS[number % len(COLORS)])
        drawing.add("text", name, x=x + 18, y=47)
    for row, bar in enumerate(bars):
        y, x = HEAD + row * ROW, float(LEFT)
        drawing.add("text", bar.name, x=LEFT - 10, y=y + 16, text_anchor="end")
        for number, name in enumerate(names):
            width = bar.parts.get(name, 0.0) * scale
            drawing.add("rect", x=x, y=y + 3, width=width, height=18, fill=COLORS[number % len(COLORS)])
            x += width
        half = (bar.margin or 0.0) * scale
        if half:
            whisker = f"M{max(LEFT, x - half):.1f} {y + 12}H{x + half:.1f}"
            drawing.add("path", d=whisker, stroke="#111827", stroke_width=2)
        drawing.add("text", f"{bar.total:,.0f}", x=x + half + 8, y=y + 16)
    return drawing.svg()


def longest(lengths: Iterator[float]) -> float:
    """Return the largest of the lengths, by which a chart is scaled; 1 for none."""
    return max(lengths, default=0.0) or 1.0


def _value(value: object) -> str:
    return escape(f"{value:.1f}" if isinstance(value, float) else str(value))


VERDICTS = ("right", "needless", "undetermined", "missed")


def backtest_plots(clusters: Sequence[BacktestDocument]) -> dict[str, str]:
    """Return charts of repairs by kind and by judgment for each cluster, as SVG by file name."""
    found = {}
    for one in clusters:
        pairs = {"record": one.recorded, "policy": one.replayed}
        actions = [Bar(name, readable(totals.actions)) for name, totals in pairs.items()]
        verdicts = [Bar(name, {word: getattr(totals, word) for word in VERDICTS}) for name, totals in pairs.items()]
        found[f"{one.cluster}-actions.svg"] = stacked_bars(f"{one.cluster}: repair actions", actions)
        found[f"{one.cluster}-repairs.svg"] = stacked_bars(f"{one.cluster}: repairs, right or not", verdicts)
    return found


def write_plots(folder: Path, plots: Mapping[str, str]) -> None:
    """Write charts to a folder, by file name; the folder is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plots.items():
        (folder / name).write_text(text, encoding="utf-8")


def readable(values: Mapping[str, float]) -> dict[str, float]:
    """Return values by their names with spaces."""
    return {name.replace("_", " "): value for name, value in values.items()}
