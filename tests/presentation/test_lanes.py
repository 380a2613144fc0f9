"""Lanes of a case's timeline, and the words of pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.answers import ACTION_TEXTS, action_text, detail_text, reason_text, why_text
from faultbridge.model.enums import ProviderFailure, RepairAction
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


@pytest.mark.parametrize("code", ProviderFailure)
def test_a_failure_code_is_said_in_words(code: ProviderFailure) -> None:
    reason = f"{code.value}: no route", code, "no route"
    shown = why_text(*reason)
    assert shown.endswith(": no route")
    assert code.value not in shown
    assert detail_text(*reason) == "no route"


@pytest.mark.parametrize("action", RepairAction)
def test_a_repair_action_in_a_reason_is_said_in_words(action: RepairAction) -> None:
    assert action.value in ACTION_TEXTS
    assert "_" not in reason_text(f"{action.value} requires approval: rule ask-first") + action_text(action)


@pytest.mark.parametrize(
    "text",
    ["node/replace_node.sh failed", "rule replace_node-later", "run `replace_node`", "WAIT: later", "xid.79", ""],
)
def test_other_text_is_not_changed(text: str) -> None:
    assert reason_text(text) == text
