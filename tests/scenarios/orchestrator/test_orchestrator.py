"""A failing or slow orchestrator: isolation and drain are retried, and the repair waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, ProviderFailure, Resolution
from tests.scenarios.admission.builders import CLUSTER_LIMIT, fail, states
from tests.scenarios.world import World, limits

RESOLVED = CaseStatus.RESOLVED
UNREACHABLE = [ProviderFailure.TIMEOUT] * 1000


def calls_at(world: World, verb: str) -> list[float]:
    """Return the minutes of the calls with a verb, counted from the first one."""
    return [call.argument for call in world.seam.named(f"orchestrator.{verb}")]


def test_an_unreachable_orchestrator_is_retried_with_backoff_and_the_node_is_kept():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(*UNREACHABLE)
    world.fault_and_react()
    minutes = []
    for minute in range(1, 31):
        before = len(calls_at(world, "cordon"))
        world.advance_minutes()
        minutes += [minute] * (len(calls_at(world, "cordon")) - before)
    assert minutes[:5] == [1, 2, 4, 5, 10]
    assert len(minutes) <= 10
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)
    assert world.released_instances() == []
    world.orchestrator.failures.clear()
    world.until(world.case_is(RESOLVED), 120)
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)


def test_forty_nodes_are_isolated_within_minutes_after_the_orchestrator_recovers():
    world = World(nodes=40, orchestrated=True, limits=limits(concurrent=2, per_hour=100))
    world.orchestrator.fail_next(*UNREACHABLE)
    fail(world, *range(1, 41))
    world.advance_minutes(20)
    assert world.orchestrator.cordoned == set()
    assert world.control().holders == {}
    world.orchestrator.failures.clear()
    world.advance_minutes(6)
    assert world.orchestrator.cordoned == {f"node-{node}" for node in range(1, 41)}
    assert len(world.control().holders) <= 2


def test_a_successor_gets_no_jobs_before_its_verification():
    world = World(orchestrated=True)
    world.fault_and_react()
    world.until(lambda: world.node().incarnation.instance == 2)
    successor = world.instance()
    world.until(lambda: successor in world.orchestrator.cordoned_instances, 5)
    assert world.status() is NodeStatus.VALIDATING
    world.until(world.case_is(RESOLVED))
    assert successor not in world.orchestrator.cordoned_instances


def test_the_repair_waits_for_a_successor_that_has_not_joined_the_cluster():
    world = World(orchestrated=True)
    world.fault_and_react()
    world.until(lambda: bool(world.released_instances()))
    world.orchestrator.unknown_nodes.add("node-1")
    world.advance_minutes(30)
    assert world.status() is NodeStatus.VALIDATING
    assert "verify begun" not in world.record_history()
    world.orchestrator.unknown_nodes.clear()
    world.until(world.case_is(RESOLVED), 60)
    assert world.status() is NodeStatus.HEALTHY


def test_a_node_that_left_its_cluster_needs_no_drain():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    world.fault_and_react()
    assert world.released_instances() == []
    world.orchestrator.unknown_nodes.add("node-1")
    world.until(lambda: bool(world.released_instances()), 15)


def test_recovered_nodes_are_uncordoned_while_the_breaker_is_open_or_repairs_are_paused():
    world = World(nodes=40, breakers=(CLUSTER_LIMIT,), orchestrated=True, limits=limits(concurrent=40, per_hour=40))
    fail(world, 1, 2)
    world.until(lambda: world.orchestrator.cordoned == {"node-1", "node-2"}, 2)
    world.until(lambda: len(world.released_instances()) == 2)
    fail(world, *range(3, 15))
    assert "open" in {state.value for state in states(world).values()}
    world.pause_repairs(paused=True)
    world.until(lambda: world.case(1).status is world.case(2).status is RESOLVED, 60)
    assert world.orchestrator.cordoned.isdisjoint({"node-1", "node-2"})


@pytest.mark.parametrize("failure", [ProviderFailure.TIMEOUT, ProviderFailure.PERMISSION_DENIED])
def test_a_verified_node_that_cannot_be_uncordoned_is_escalated_but_neither_serves_nor_fails(failure):
    world = World(orchestrated=True)
    world.fault_and_react()
    world.until(lambda: world.case().attempt is not None and world.case().attempt.step == "verify")
    world.advance_minutes()
    world.orchestrator.fail_next(*[failure] * 1000)
    world.until(lambda: world.case().status is CaseStatus.ESCALATED, 120)
    assert world.status() is NodeStatus.VALIDATING
    assert "does not uncordon the node" in world.case().reason
    # An answer may have been lost, so it is unknown whether the node is still cordoned.
    assert world.node().isolation is Isolation.REQUESTED
