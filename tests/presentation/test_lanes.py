"""Laws of bars and axes: everything stays within the chart, and ticks are round and few."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.serve.presentation.history import MAX_TICKS, Bar, Lane, make_chart, ticks
from faultbridge.serve.presentation.tones import Tone
from tests.builders import NOON

SECONDS = st.integers(-10_000_000, 10_000_000).map(lambda seconds: NOON + timedelta(seconds=seconds))
SPANS = st.tuples(SECONDS, SECONDS).map(sorted)
BARS = SPANS.map(lambda span: Bar(span[0], span[1], "text", Tone.GOOD))


@given(SPANS, st.lists(BARS))
def test_every_bar_of_a_chart_is_within_its_span(span, bars) -> None:
    chart = make_chart(*span, [Lane("lane", tuple(bars))])
    for lane in chart.lanes:
        assert lane.bars
        for bar in lane.bars:
            assert chart.start <= bar.start <= bar.end <= chart.end
            assert 0 <= chart.share(bar.start) <= chart.share(bar.end) <= 1


@given(SPANS, st.lists(BARS))
def test_no_bar_within_the_span_is_lost(span, bars) -> None:
    chart = make_chart(*span, [Lane("lane", tuple(bars))])
    inside = [bar for bar in bars if bar.end >= chart.start and bar.start <= chart.end]
    assert sum(len(lane.bars) for lane in chart.lanes) == len(inside)


@given(SPANS)
def test_an_axis_has_few_ticks_in_order_within_it(span) -> None:
    chart = make_chart(*span, ())
    found = ticks(chart.start, chart.end)
    assert len(found) <= MAX_TICKS + 1
    assert [one.share for one in found] == sorted(one.share for one in found)
    assert all(-1e-9 <= one.share <= 1 + 1e-9 for one in found)
    assert len({one.text for one in found}) == len(found) or (chart.end - chart.start).days > 0


def test_a_chart_is_never_empty_of_time() -> None:
    chart = make_chart(NOON, NOON, ())
    assert chart.end > chart.start
    assert chart.share(NOON) == 0
