"""Views: the current state of clusters, nodes and cases."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey
from faultbridge.repair.registry.views import Views, status_ranges
from tests.builders import fault
from tests.ingest.world import LedgerFixture


def test_a_cluster_view_contains_configuration_status_and_slots() -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    world.rollup.update("train-a")
    (view,) = Views(world.table).clusters()
    assert (view.config.cluster, view.config.expected, view.control.holders) == ("train-a", 1, {})
    assert view.state.status is not None


def test_nodes_of_all_shards_are_listed_by_name() -> None:
    world = LedgerFixture(nodes_per_shard=1)
    keys = [world.register_node(f"n-{number}") for number in (3, 1, 2)]
    world.observe_faults(keys[0])
    nodes = Views(world.table).nodes("train-a")
    assert [node.key.node for node in nodes] == ["n-1", "n-2", "n-3"]
    assert [node.status for node in nodes] == [NodeStatus.HEALTHY, NodeStatus.HEALTHY, NodeStatus.DEGRADED]


def test_live_cases_are_listed_oldest_first_by_default() -> None:
    world = LedgerFixture(nodes_per_shard=1)
    second, first = world.register_node("n-2"), world.register_node("n-1")
    world.observe_faults(first)
    world.pass_time(minutes=1)
    world.observe_faults(second)
    views = Views(world.table).cases("train-a")
    assert [view.key.node for view in views] == ["n-1", "n-2"]
    assert Views(world.table).cases("train-a", [CaseStatus.RESOLVED]) == ()


def test_a_case_is_listed_as_soon_as_the_lagging_index_contains_it() -> None:
    world = LedgerFixture(index_lag=timedelta(minutes=5))
    key = world.register_node("n-1")
    world.observe_faults(key, fault("xid.48"))
    world.pass_time(minutes=6)
    assert len(Views(world.table).cases("train-a")) == 1


def test_a_case_view_contains_the_duration_of_each_phase() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).live_case
    assert case is not None
    now = world.pass_time(minutes=2)
    view = Views(world.table).case(case.id)
    assert view.key == NodeKey("train-a", "n-1")
    assert view.age(now) == 120_000
    assert sum(view.phases(now).values()) == 120_000


def test_a_node_is_returned_with_its_active_conditions() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.observe_faults(key)
    state = Views(world.table).node(key)
    assert [condition.code for condition in state.active()] == ["xid.79"]


def test_an_unknown_cluster_node_or_case_is_rejected() -> None:
    views = Views(LedgerFixture().table)
    with pytest.raises(Rejected, match="unknown_cluster"):
        views.nodes("other")
    with pytest.raises(Rejected, match="unknown_node"):
        views.node(NodeKey("train-a", "other"))
    with pytest.raises(Rejected, match="unknown_case"):
        views.case("c-none")


@given(st.sets(st.sampled_from(CaseStatus)))
def test_the_ranges_of_the_index_contain_exactly_the_wanted_statuses(wanted: set[CaseStatus]) -> None:
    ranges = list(status_ranges(wanted))
    keys = {status: f"{status.value}#2026-02-03T04:05:06.000Z#c-1" for status in CaseStatus}
    read = [status for first, last in ranges for status in CaseStatus if f"{first}#" < keys[status] <= f"{last}$"]
    assert sorted(read) == sorted(wanted)


def test_live_cases_are_read_with_two_queries_for_each_shard() -> None:
    assert len(list(status_ranges([status for status in CaseStatus if status.live]))) == 2
