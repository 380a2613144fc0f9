"""Clusters, nodes and cases as they are now."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.registry.views import Views
from tests.builders import fault
from tests.ingest.world import LedgerFixture


def test_a_cluster_shows_its_registration_status_and_slots() -> None:
    world = LedgerFixture()
    world.register_node("n-1")
    world.rollup("train-a")
    (view,) = Views(world.table).clusters()
    assert (view.config.cluster, view.config.expected, view.control.holders) == ("train-a", 1, {})
    assert view.state.status is not None


def test_nodes_are_listed_by_name_over_all_shards_with_their_status() -> None:
    world = LedgerFixture(shards=4)
    keys = [world.register_node(f"n-{number}") for number in (3, 1, 2)]
    world.observe_faults(keys[0])
    nodes = Views(world.table).nodes("train-a")
    assert [node.key.node for node in nodes] == ["n-1", "n-2", "n-3"]
    assert [node.status for node in nodes] == [NodeStatus.HEALTHY, NodeStatus.HEALTHY, NodeStatus.DEGRADED]


def test_cases_that_need_somebody_are_listed_oldest_first() -> None:
    world = LedgerFixture(shards=4)
    second, first = world.register_node("n-2"), world.register_node("n-1")
    world.observe_faults(first)
    world.pass_time(minutes=1)
    world.observe_faults(second)
    views = Views(world.table).cases("train-a")
    assert [view.key.node for view in views] == ["n-1", "n-2"]
    assert Views(world.table).cases("train-a", [CaseStatus.RESOLVED]) == ()


def test_a_case_that_the_index_still_shows_as_live_is_not_listed_as_live() -> None:
    world = LedgerFixture(index_lag=timedelta(minutes=5))
    key = world.register_node("n-1")
    world.observe_faults(key, fault("xid.48"))
    world.pass_time(minutes=6)
    assert len(Views(world.table).cases("train-a")) == 1


def test_a_case_tells_how_long_each_phase_took() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).live_case
    assert case is not None
    now = world.pass_time(minutes=2)
    view = Views(world.table).case(case.id)
    assert view.key == NodeKey("train-a", "n-1")
    assert view.age(now) == 120_000
    assert sum(view.phases(now).values()) == 120_000


def test_a_node_is_shown_with_what_is_wrong_with_it() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.observe_faults(key)
    state = Views(world.table).node(key)
    assert [condition.code for condition in state.active()] == ["xid.79"]


def test_what_does_not_exist_is_said_not_to() -> None:
    directory = Views(LedgerFixture().table)
    with pytest.raises(Rejected, match="unknown_cluster"):
        directory.nodes("other")
    with pytest.raises(Rejected, match="unknown_node"):
        directory.node(NodeKey("train-a", "other"))
    with pytest.raises(Rejected, match="unknown_case"):
        directory.case("c-none")
