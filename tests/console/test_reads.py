"""What a page reads is bounded: the requests and items do not depend on the length of the history."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus
from faultbridge.model.values import replace
from faultbridge.record.timeline import Timeline
from faultbridge.repair.registry.views import Views
from faultbridge.serve.console.facts import MAX_ENTRIES, Facts
from tests.builders import NOON, POLICY
from tests.console.cost import SECONDS, cost_of
from tests.console.sites import Site
from tests.console.year import Year
from tests.ledger.bulk import CLUSTER, BulkTable, history
from tests.presentation.histories import facts_of as facts_of_world
from tests.scenarios.incidents.incidents import NETWORK_WAITS, world_of
from tests.sim.fakes import ManualClock

pytestmark = pytest.mark.slow

NODES, SHARDS = 4, 2
MAX_REQUESTS = {"fleet": 15, "cluster": 14, "node": 6, "case": 6, "job": 6, "incident": 25}
"""Of a warm function, with eight shards of nodes."""

MAX_CALLS = {"fleet": 17, "cluster": 22, "node": 6, "case": 9}


def facts_of(table: BulkTable) -> Facts:
    clock = ManualClock(NOON + timedelta(days=30))
    return Facts(Views(table), Timeline(table), clock, lambda _: POLICY)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [(None, None), (NOON + timedelta(hours=2), NOON + timedelta(hours=4))])
def test_the_cost_of_a_node_page_does_not_depend_on_the_length_of_the_history(window) -> None:
    costs = []
    for entries in (2_000, 4_000):
        table = history(entries, NODES, SHARDS)
        found = facts_of(table).node(CLUSTER, "n-0001", window)
        assert len(found.entries) == MAX_ENTRIES
        costs.append((table.requests, table.read))
    # A binary search takes one more request for each end of the window when the history is twice as long.
    assert costs[1][0] - costs[0][0] <= (0 if window == (None, None) else 2)
    assert costs[1][0] <= 34
    assert costs[1][1] <= 2 * MAX_ENTRIES


@pytest.fixture(scope="module")
def years() -> tuple[Year, Year]:
    """Return two years of the same forty nodes; the second one has four times the entries."""
    return Year(40, 4_000), Year(40, 16_000)


@pytest.mark.parametrize("view", ["fleet", "cluster", "node", "case", "job", "incident"])
def test_the_requests_of_a_view_do_not_depend_on_the_length_of_the_history(years: tuple[Year, Year], view: str) -> None:
    short, long = (cost_of(year, year.paths[view]) for year in years)
    # An incident looks for its begin in the stream of the cluster by binary search: two requests more.
    assert long.requests - short.requests <= (2 if view == "incident" else 0)
    assert long.requests <= MAX_REQUESTS[view]


@pytest.mark.parametrize("view", ["fleet", "cluster", "node", "case", "job", "incident"])
def test_ten_viewers_that_load_a_view_every_minute_cost_less_than_5_dollars_a_month(
    years: tuple[Year, Year], view: str
) -> None:
    cost = cost_of(years[1], years[1].paths[view])
    assert replace(cost, seconds=SECONDS).dollars < 5


def test_each_page_makes_few_calls() -> None:
    site = Site()
    case = site.fault()
    pages = {
        "fleet": "",
        "cluster": "/clusters/train-a",
        "node": "/clusters/train-a/nodes/n-1",
        "case": f"/clusters/train-a/cases/{case}",
    }
    seam, counted = site.world.ports.seam, {}
    for name, path in pages.items():
        seam.calls.clear()
        assert site.get(path).status == 200
        counted[name] = len([call for call in seam.calls if call.port == "table"])
    assert {name: counted[name] for name in MAX_CALLS if counted[name] > MAX_CALLS[name]} == {}


def test_an_unchanged_cluster_is_read_without_its_entries_and_closed_cases(years: tuple[Year, Year]) -> None:
    cost = cost_of(years[1], years[1].paths["cluster"])
    assert cost.units < cost.changed_units / 2


def test_a_warm_function_shows_a_case_that_closed_and_a_new_entry_at_once() -> None:
    world = world_of(rules=(NETWORK_WAITS,))
    facts = facts_of_world(world)
    world.fault_and_react(2)
    before = facts.cluster(CLUSTER, (None, None))
    world.until(world.case_is(CaseStatus.RESOLVED, 2))
    after = facts.cluster(CLUSTER, (None, None))
    assert [one["case_id"] for one in before.closed_cases] == []
    assert [one.case_id for one in after.closed_cases] == [world.case(2).id]
    assert len(after.entries) > len(before.entries)
    assert [one.resolution for one in after.closed_cases] == ["replaced"]


def test_the_placement_of_nodes_is_read_once_in_fifteen_minutes() -> None:
    site = Site()
    seam = site.world.ports.seam

    def calls() -> int:
        seam.calls.clear()
        site.get("/clusters/train-a")
        return len(seam.calls)

    first, second = calls(), calls()
    site.world.ports.clock.advance(901)
    assert (second < first, calls()) == (True, first)
