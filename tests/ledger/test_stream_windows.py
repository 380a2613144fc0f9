"""Windows of one stream: the newest entries in a span of time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.ledger.timeline import Timeline
from faultbridge.simulation.fakes import FakeTable, ManualClock
from faultbridge.storage.writes import Put
from tests.builders import NOON
from tests.ledger.bulk import CLUSTER, rows

NODE = "n-0000"


def timeline_of(entries: int) -> tuple[Timeline, object]:
    """Return a timeline of one node with one entry a minute from noon on, and the head of its stream."""
    table = FakeTable(ManualClock(NOON))
    for row in rows(entries, 1, 1):
        table.write(Put(row))
    from faultbridge.domain.nodes import NodeKey
    from faultbridge.ledger.queries import node_head

    return Timeline(table), node_head(table, NodeKey(CLUSTER, NODE))


TIMELINE, HEAD = timeline_of(60)


@settings(max_examples=60, deadline=None)
@given(st.integers(-5, 65), st.integers(-5, 65), st.integers(1, 70))
def test_a_window_holds_the_newest_entries_of_its_span_and_states_whether_there_are_older_ones(
    since: int, until: int, limit: int
) -> None:
    span = NOON + timedelta(minutes=since), NOON + timedelta(minutes=until)
    lines, older = TIMELINE.window(CLUSTER, NODE, HEAD, span, limit)  # type: ignore[arg-type]
    expected = [number + 1 for number in range(60) if since <= number < until]
    assert [line.event["metadata"]["sequence"] for line in lines] == expected[-limit:]
    assert older is (len(expected) > limit)


@pytest.mark.parametrize("span", [(None, None), (NOON - timedelta(days=1), None)])
def test_a_window_without_limits_ends_with_the_last_entry(span: tuple[datetime | None, datetime | None]) -> None:
    lines, older = TIMELINE.window(CLUSTER, NODE, HEAD, span, 10)  # type: ignore[arg-type]
    assert [line.event["metadata"]["sequence"] for line in lines] == list(range(51, 61))
    assert older
