"""The requests and items of one page do not depend on the length of the history."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.record.timeline import MAX_READ, Timeline, TimelineQuery
from tests.builders import NOON
from tests.ledger.builders import MAX_COST, NODES, PAGE, QUERIES, SHARDS
from tests.ledger.bulk import CLUSTER, history

MAX_COST["device"] = (3, 2 + PAGE + 1)


@pytest.fixture(
    scope="module",
    params=[
        10_000,
        pytest.param(100_000, marks=pytest.mark.nightly),
        pytest.param(300_000, marks=pytest.mark.nightly),
    ],
)
def entries(request):
    return request.param


@pytest.fixture(scope="module")
def table(entries):
    return history(entries, NODES, SHARDS)


@pytest.mark.parametrize("kind", QUERIES)
def test_the_cost_of_a_page_does_not_depend_on_its_position_in_the_history(kind, table) -> None:
    timeline, token, costs = Timeline(table), None, set()
    for _ in range(4):
        before = table.requests, table.read
        lines, token = timeline.page(QUERIES[kind], PAGE, token)
        costs.add((table.requests - before[0], table.read - before[1]))
        assert lines
        if token is None:
            break
    assert max(requests for requests, _ in costs) <= MAX_COST[kind][0]
    assert max(read for _, read in costs) <= MAX_COST[kind][1]


def test_the_window_of_a_node_is_found_by_binary_search(table, entries) -> None:
    minutes = entries // NODES
    since = NOON + timedelta(minutes=minutes - 1)
    before = table.requests, table.read
    lines, token = Timeline(table).page(TimelineQuery(CLUSTER, "n-0007", since=since), PAGE)
    assert (len(lines), token) == (1, None)
    assert table.requests - before[0] <= 3 + minutes.bit_length()
    assert table.read - before[1] <= 20 + minutes.bit_length()


def test_a_page_without_matches_reads_a_bounded_number_of_entries(table) -> None:
    before = table.read
    lines, token = Timeline(table).page(TimelineQuery(CLUSTER, codes=("xid.79",)), PAGE)
    assert lines == ()
    assert token is not None
    assert table.read - before <= MAX_READ + 24 * SHARDS + 2


def test_the_pages_of_a_cluster_contain_every_entry_once(entries) -> None:
    if entries > 10_000:
        pytest.skip("the smallest history is enough")
    timeline, token, ids = Timeline(history(entries, NODES, SHARDS)), None, []
    while True:
        lines, token = timeline.page(TimelineQuery(CLUSTER), 1_000, token)
        ids += [line.event.metadata.event_id for line in lines]
        if token is None:
            break
    assert len(ids) == len(set(ids)) == entries
