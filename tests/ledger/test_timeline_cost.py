"""What one page costs does not depend on how much was recorded before it: requests and items, counted at the table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.ledger.timeline import MAX_READ, Timeline, Wanted
from tests.builders import NOON
from tests.ledger.bulk import CLUSTER, history

NODES = 2_000
SHARDS = 16
PAGE = 50

ASKED = {
    "cluster": Wanted(CLUSTER),
    "node": Wanted(CLUSTER, "n-0007"),
    "case": Wanted(case="c-7"),
    "device": Wanted(device="GPU-7"),
}
# Requests and items of one page of 50: a cluster of 16 shards asks each of them at least once.
MOST = {"cluster": (1 + 2 * SHARDS, 1 + 24 * SHARDS), "node": (3, 2 + PAGE + 1), "case": (2, 1 + PAGE + 1)}
MOST["device"] = (3, 2 + PAGE + 1)


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


@pytest.mark.parametrize("asked", ASKED)
def test_a_page_costs_what_it_holds_wherever_in_the_history_it_lies(asked, table) -> None:
    timeline, token, costs = Timeline(table), None, set()
    for _ in range(4):
        before = table.requests, table.read
        lines, token = timeline.page(ASKED[asked], PAGE, token)
        costs.add((table.requests - before[0], table.read - before[1]))
        assert lines
        if token is None:
            break
    assert max(requests for requests, _ in costs) <= MOST[asked][0]
    assert max(read for _, read in costs) <= MOST[asked][1]


def test_a_window_of_a_node_is_found_by_halves(table, entries) -> None:
    minutes = entries // NODES
    since = NOON + timedelta(minutes=minutes - 1)
    before = table.requests, table.read
    lines, token = Timeline(table).page(Wanted(CLUSTER, "n-0007", since=since), PAGE)
    assert (len(lines), token) == (1, None)
    assert table.requests - before[0] <= 3 + minutes.bit_length()
    assert table.read - before[1] <= 20 + minutes.bit_length()


def test_a_filter_that_nothing_passes_ends_a_page_after_a_bounded_look(table) -> None:
    before = table.read
    lines, token = Timeline(table).page(Wanted(CLUSTER, codes=("xid.79",)), PAGE)
    assert lines == ()
    assert token is not None
    assert table.read - before <= MAX_READ + 24 * SHARDS + 2


def test_the_pages_of_a_cluster_tell_everything_once(entries) -> None:
    if entries > 10_000:
        pytest.skip("told for all sizes by the smallest")
    timeline, token, told = Timeline(history(entries, NODES, SHARDS)), None, []
    while True:
        lines, token = timeline.page(Wanted(CLUSTER), 1_000, token)
        told += [line.event["metadata"]["event_id"] for line in lines]
        if token is None:
            break
    assert len(told) == len(set(told)) == entries
