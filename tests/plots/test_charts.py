"""Charts are valid SVG that shows every result with its value and name."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.backtest.plots import (
    LEFT,
    RIGHT,
    WIDTH,
    Bar,
    backtest_plots,
    stacked_bars,
    write_plots,
)
from faultbridge.decide.backtest.report import BacktestDocument, Compared, Totals
from tests.lab.plots import PLOT_HEIGHT, Line, comparison_plots, lines

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=20)
VALUES = st.floats(0, 1e6)
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - the text is ours


@given(st.lists(st.builds(Bar, NAMES, st.dictionaries(NAMES, VALUES, max_size=4), st.none() | VALUES), max_size=5))
def test_every_bar_has_its_name_and_its_total(bars) -> None:
    shown = texts(stacked_bars("title <&>", bars))
    assert shown[0] == "title <&>"
    for bar in bars:
        assert {bar.name, f"{bar.total:,.0f}"} <= set(shown)


@pytest.mark.slow
@given(st.lists(st.builds(Line, NAMES, st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1)), min_size=1))
def test_every_line_has_its_name_and_stays_inside_the_axes(found) -> None:
    drawn = lines("title", ("x", "y"), found)
    assert {one.name for one in found} <= set(texts(drawn))
    heights = [float(text) for text in re.findall(r"M[-\d.]+ ([-\d.]+)V[-\d.]+\"", drawn)]
    assert all(47.9 <= one <= PLOT_HEIGHT - 47.9 for one in heights)


def test_the_longest_bar_and_its_interval_fill_the_width() -> None:
    drawn = ET.fromstring(stacked_bars("t", [Bar("a", {"x": 30.0}, 10.0), Bar("b", {"x": 15.0})]))  # noqa: S314
    widths = [float(one.get("width", "0")) for one in drawn.iter(f"{SVG}rect") if one.get("height") == "18"]
    assert widths == [(WIDTH - LEFT - RIGHT) * 0.75, (WIDTH - LEFT - RIGHT) * 0.375]


def test_no_interval_reaches_beyond_the_start_of_the_bars() -> None:
    starts = re.findall(r"M([\d.]+) \d+H", stacked_bars("t", [Bar("a", {"x": 30.0}, 90.0)]))
    assert [float(one) for one in starts] == [float(LEFT)]


def test_a_comparison_and_a_back_test_are_written_as_files(tmp_path: Path) -> None:
    system = {
        "system": "faultbridge (packaged)",
        "lost_gpu_hours": 12.0,
        "precursors": 0.0,
        "against_eks": {"lost_gpu_hours": {"ratio": 1.1, "margin": 0.1}},
        "margins": {},
        "lost_by_cause": {"node_down": 4.0, "rollback": 8.0},
    }
    totals = Totals(3, {"verify": 1, "replace_node": 2}, 2, 0, 1, 2, 0, 0, None, None, 0)
    clusters = [BacktestDocument("train-a", 9, None, None, Compared(3, 3, 0), totals, totals, [], [])]
    write_plots(
        tmp_path / "new", {**comparison_plots([system, {**system, "precursors": 30.0}]), **backtest_plots(clusters)}
    )
    written = {path.name: texts(path.read_text(encoding="utf-8")) for path in (tmp_path / "new").iterdir()}
    assert {"node down", "12"} <= set(written["lost-gpu-hours.svg"])
    assert "faultbridge (packaged)" in written["precursors.svg"]
    assert {"record", "policy", "3"} <= set(written["train-a-actions.svg"])
    assert "needless" in written["train-a-repairs.svg"]
