"""Cluster status: one correct status per cluster, even if several rollups run at once."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.model.cluster.state import ProviderCondition
from faultbridge.model.enums import ClusterStatus, ConditionKind, NodeStatus
from faultbridge.model.storage import items, keys
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from tests.builders import NOON
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call


def state(world: World):
    return items.read_cluster(CLUSTER, world.table.get(keys.cluster_state(CLUSTER)))


def test_a_rollup_without_a_change_records_no_entry():
    world = World(nodes=3)
    before = state(world)
    world.rollup.update(CLUSTER)
    after = state(world)
    assert (after.status, after.counts) == (ClusterStatus.HEALTHY, {"healthy": 3})
    assert after.head.version == before.head.version + 1
    assert after.head.sequence == before.head.sequence


def test_the_version_increases_even_without_a_change():
    world = World()
    versions = [world.rollup.update(CLUSTER).head.version for _ in range(3)]
    assert versions == sorted(set(versions))


def test_a_change_of_only_the_counts_is_recorded():
    world = World(nodes=20)
    for node in (1, 2):
        world.fault(node, code="xid.92")
        world.rollup.update(CLUSTER)
    counts = [body["data"]["counts"] for body in world.bodies(None)]
    assert counts[-2:] == [{"degraded": 1, "healthy": 19}, {"degraded": 2, "healthy": 18}]
    assert world.bodies(None)[-1]["data"]["from"] == "degraded"


def test_a_rollup_with_older_rows_never_overwrites_a_newer_one():
    world = World(nodes=20)

    def fail_in_between(call: Call) -> None:
        # After the rows are read and before the status is written, a node fails and another rollup records it.
        if call.name in {"table.write", "table.transact"}:
            world.seam.before = lambda _: None
            world.fault(1, code="xid.92")
            world.rollup.update(CLUSTER)

    world.seam.before = fail_in_between
    world.rollup.update(CLUSTER)
    assert state(world).status is ClusterStatus.DEGRADED


def test_every_page_of_rows_is_counted():
    world = World(nodes=7)
    world.table.page_size = 2
    for node in range(1, 8):
        world.fault(node, code="xid.92")
    assert world.rollup.update(CLUSTER).counts == {NodeStatus.DEGRADED.value: 7}


def test_the_severity_of_a_cluster_is_the_highest_of_its_nodes():
    world = World(nodes=20)
    world.fault(1, code="xid.92")
    world.fault(2, code="xid.79")
    world.rollup.update(CLUSTER)
    assert world.bodies(None)[-1]["metadata"]["severity"] == "fatal"
    assert world.bodies(None)[-1]["metadata"]["node"] is None


def test_a_cluster_whose_nodes_are_all_out_of_service_has_no_verified_node():
    world = World(nodes=2)
    for node in (1, 2):
        world.fault_and_react(node)
    world.rollup.update(CLUSTER)
    assert world.bodies(None)[-1]["data"]["counts"].get("healthy") is None
    assert state(world).verified == 0


@pytest.mark.parametrize(("nodes", "reason"), [(0, "no nodes"), (3, "1 degraded, 2 healthy")])
def test_the_reason_of_a_status_states_the_number_of_nodes_in_each_status(nodes: int, reason: str):
    world = World(nodes=nodes)
    if nodes:
        world.fault(1, code="xid.92")
    world.rollup.update(CLUSTER)
    assert world.bodies(None)[-1]["data"]["reason"] == reason


def test_a_status_names_the_event_that_triggered_its_update_as_its_cause():
    world = World(nodes=3)
    world.fault(1, code="xid.92")
    world.rollup.update(CLUSTER, "an-event")
    assert world.bodies(None)[-1]["metadata"]["causation_id"] == "an-event"


def test_a_report_of_the_provider_follows_from_the_last_entry_of_the_cluster():
    world = World(nodes=3)
    world.fault(1, code="xid.92")
    world.rollup.update(CLUSTER)
    last = world.bodies(None)[-1]["metadata"]["event_id"]
    world.rollup.report_provider(CLUSTER, lambda before: replace(before, target=5))
    assert world.bodies(None)[-1]["data"]["expected"] == 5
    assert world.bodies(None)[-1]["metadata"]["causation_id"] == last


@pytest.mark.parametrize(("since", "recorded"), [(None, None), (NOON, to_text(NOON))])
def test_a_condition_of_the_provider_is_recorded_with_its_start(since: datetime | None, recorded: str | None):
    world = World()
    condition = ProviderCondition(ConditionKind.NO_CAPACITY, "none left", "gpu", since)
    world.rollup.report_provider(CLUSTER, lambda before: replace(before, provider=(condition,)))
    (shown,) = world.bodies(None)[-1]["data"]["provider_conditions"]
    assert (shown["message"], shown["since"]) == ("none left", recorded)
