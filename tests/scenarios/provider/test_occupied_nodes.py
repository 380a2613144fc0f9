"""Nodes that HyperPod itself updates, tests or starts: they open no case, and are not counted in service meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from tests.scenarios.provider.hyperpod_world import HyperPodWorld, hyperpod_world
from tests.scenarios.provider.provider_conditions import statuses


def occupy(world: HyperPodWorld, status: str, node: int = 1) -> None:
    """Let HyperPod report a status of a node, as an update or a check of its own does."""
    slot = world.node(node).placement.slot
    assert slot is not None
    world.cluster.nodes[slot] = replace(world.cluster.nodes[slot], status=status)


def last(world: HyperPodWorld) -> dict[str, Any]:
    data: dict[str, Any] = statuses(world)[-1]["data"]
    return data


@pytest.mark.parametrize("status", ["SystemUpdating", "DeepHealthCheckInProgress", "Pending", "Failure"])
def test_a_node_that_hyperpod_keeps_work_off_is_not_in_service_until_it_runs_again(status: str) -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        occupy(world, status)
        world.run_inventory()
        during = last(world)
        assert (during["in_service"], during["expected"], during["counts"]) == (1, 2, {"healthy": 2})
        assert during["to"] in {"recovering", "degraded"}
        assert "1 of 2 nodes in service" in during["reason"]
        assert "1 of them started, updated or tested by the provider" in during["reason"]
        assert world.node().case is None
        occupy(world, "Running")
        world.run_inventory()
        assert (last(world)["to"], last(world)["in_service"]) == ("healthy", 2)
        assert world.cluster.requests == []


def test_a_cluster_whose_nodes_hyperpod_tests_is_recovering_and_no_operator_is_paged() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        occupy(world, "DeepHealthCheckInProgress")
        world.run_inventory()
        assert (last(world)["to"], last(world)["provider_health"]) == ("recovering", "in_service")


def test_the_next_node_of_an_update_records_nothing_new() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        occupy(world, "SystemUpdating")
        world.run_inventory()
        recorded = len(statuses(world))
        occupy(world, "Running")
        occupy(world, "SystemUpdating", 2)
        world.run_inventory()
        assert len(statuses(world)) == recorded
        assert last(world)["in_service"] == 1


def test_an_occupied_node_that_leaves_service_is_subtracted_once() -> None:
    with hyperpod_world(nodes=2) as world:
        world.run_inventory()
        occupy(world, "DeepHealthCheckInProgress")
        world.run_inventory()
        world.fault_and_react()
        world.until(lambda: world.status() is NodeStatus.QUARANTINED, 30)
        assert last(world)["in_service"] == 1


def test_a_node_that_faultbridge_lets_hyperpod_test_serves_as_soon_as_it_was_verified() -> None:
    with hyperpod_world(nodes=2, rules=(Rule("deep", release_without_capacity=True, verify_level=2),)) as world:
        world.fault_and_react()

        def is_tested() -> bool:
            return any(one.status == "DeepHealthCheckInProgress" for one in world.cluster.current())

        world.until(is_tested, 300)
        world.run_inventory()
        assert last(world)["in_service"] == 1
        world.until(world.case_is(CaseStatus.RESOLVED), 300)
        assert (last(world)["to"], last(world)["in_service"]) == ("healthy", 2)


def test_a_verified_node_that_hyperpod_updates_is_not_counted_as_verified_in_service() -> None:
    with hyperpod_world(nodes=2, rules=(Rule("replace", release_without_capacity=True),)) as world:
        world.run_inventory()
        world.fault_and_react()
        world.until(world.case_is(CaseStatus.RESOLVED), 300)
        world.run_inventory()
        assert (last(world)["in_service"], last(world)["verified"]) == (2, 1)
        occupy(world, "SystemUpdating")
        world.run_inventory()
        assert (last(world)["in_service"], last(world)["verified"]) == (1, 0)
        occupy(world, "Running")
        occupy(world, "SystemUpdating", 2)
        world.run_inventory()
        assert (last(world)["in_service"], last(world)["verified"]) == (1, 1)
