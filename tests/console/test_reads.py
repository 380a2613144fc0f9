"""What a page reads is bounded: the requests and items do not depend on the length of the history."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.console.facts import MAX_ENTRIES, Facts
from faultbridge.ledger.timeline import Timeline
from faultbridge.registry.views import Views
from faultbridge.simulation.fakes import ManualClock
from tests.builders import NOON
from tests.console.sites import Site
from tests.ledger.bulk import CLUSTER, BulkTable, history

NODES, SHARDS = 4, 2
MAX_CALLS = {"fleet": 14, "cluster": 22, "node": 6, "case": 9}


def facts_of(table: BulkTable) -> Facts:
    return Facts(Views(table), Timeline(table), ManualClock(NOON + timedelta(days=30)))  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [(None, None), (NOON + timedelta(hours=2), NOON + timedelta(hours=4))])
def test_the_cost_of_a_node_page_does_not_depend_on_the_length_of_the_history(window) -> None:
    costs = []
    for entries in (2_000, 4_000):
        table = history(entries, NODES, SHARDS)
        found = facts_of(table).node(CLUSTER, "n-0001", window)
        assert len(found.entries) in {MAX_ENTRIES, 120}
        costs.append((table.requests, table.read))
    # A binary search takes one more request for each end of the window when the history is twice as long.
    assert costs[1][0] - costs[0][0] <= (0 if window == (None, None) else 2)
    assert costs[1][0] <= 34
    assert costs[1][1] <= 2 * MAX_ENTRIES


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


def test_the_placement_of_nodes_is_read_once_in_five_minutes() -> None:
    site = Site()
    seam = site.world.ports.seam

    def calls() -> int:
        seam.calls.clear()
        site.get("/clusters/train-a")
        return len(seam.calls)

    first, second = calls(), calls()
    site.world.ports.clock.advance(301)
    assert (second < first, calls()) == (True, first)
