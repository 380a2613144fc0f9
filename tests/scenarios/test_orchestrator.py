"""What the orchestrator does not do, or does late: isolation is asked for again, work waited for, nodes let go."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation
from faultbridge.ports import ProviderFailure
from tests.scenarios.test_breaker import CLUSTER_LIMIT, fail, states
from tests.scenarios.world import World, limits

RESOLVED = CaseStatus.RESOLVED
UNREACHABLE = [ProviderFailure.TIMEOUT] * 1000


def asked(world: World, verb: str) -> list[float]:
    """In which minutes the orchestrator was asked so, from the first time on."""
    return [call.argument for call in world.seam.named(f"orchestrator.{verb}")]


def test_an_orchestrator_out_of_reach_is_asked_again_at_growing_pauses_and_the_node_is_kept():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(*UNREACHABLE)
    world.fault()
    world.listen()
    minutes = []
    for minute in range(1, 31):
        before = len(asked(world, "cordon"))
        world.minute()
        minutes += [minute] * (len(asked(world, "cordon")) - before)
    assert minutes[:5] == [1, 2, 4, 5, 10]
    assert len(minutes) <= 10
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)
    assert world.released() == []
    world.orchestrator.failures.clear()
    world.until(world.case_is(RESOLVED), 120)
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)


def test_one_orchestrator_out_of_reach_for_forty_nodes_isolates_all_within_minutes_of_its_return():
    world = World(nodes=40, orchestrated=True, limits=limits(concurrent=2, per_hour=100))
    world.orchestrator.fail_next(*UNREACHABLE)
    fail(world, *range(1, 41))
    world.minute(20)
    assert world.orchestrator.cordoned == set()
    assert world.control().holders == {}
    world.orchestrator.failures.clear()
    world.minute(6)
    assert world.orchestrator.cordoned == {f"node-{node}" for node in range(1, 41)}
    assert len(world.control().holders) <= 2


def test_work_comes_to_no_successor_before_it_was_verified():
    world = World(orchestrated=True)
    world.fault()
    world.listen()
    world.until(lambda: world.node().incarnation.instance == 2)
    successor = world.node().incarnation.instance_id
    world.until(lambda: successor in world.orchestrator.kept_off, 5)
    assert world.status() is NodeStatus.VALIDATING
    world.until(world.case_is(RESOLVED))
    assert successor not in world.orchestrator.kept_off


def test_a_successor_that_has_not_joined_its_cluster_is_waited_for():
    world = World(orchestrated=True)
    world.fault()
    world.listen()
    world.until(lambda: bool(world.released()))
    world.orchestrator.absent.add("node-1")
    world.minute(30)
    assert world.status() is NodeStatus.VALIDATING
    assert "verify begun" not in world.story()
    world.orchestrator.absent.clear()
    world.until(world.case_is(RESOLVED), 60)
    assert world.status() is NodeStatus.HEALTHY


def test_a_node_that_left_its_cluster_has_nothing_to_be_drained():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    world.fault()
    world.listen()
    world.orchestrator.absent.add("node-1")
    world.until(lambda: bool(world.released()), 15)


def test_nodes_are_let_go_while_the_breaker_is_open_and_repairs_are_paused():
    world = World(nodes=40, breakers=(CLUSTER_LIMIT,), orchestrated=True, limits=limits(concurrent=40, per_hour=40))
    fail(world, 1, 2)
    world.until(lambda: world.orchestrator.cordoned == {"node-1", "node-2"}, 2)
    world.until(lambda: len(world.released()) == 2)
    fail(world, *range(3, 15))
    assert "open" in {state.value for state in states(world).values()}
    world.pause_repairs(paused=True)
    world.until(lambda: world.case(1).status is world.case(2).status is RESOLVED, 60)
    assert world.orchestrator.cordoned.isdisjoint({"node-1", "node-2"})


@pytest.mark.parametrize("failure", [ProviderFailure.TIMEOUT, ProviderFailure.PERMISSION_DENIED])
def test_a_verified_node_that_the_orchestrator_does_not_take_back_goes_to_a_person_and_serves_once_it_does(failure):
    world = World(orchestrated=True)
    world.fault()
    world.listen()
    world.until(lambda: world.case().attempt is not None and world.case().attempt.step == "verify")
    world.minute()
    world.orchestrator.fail_next(*[failure] * 1000)
    world.until(lambda: world.case().status is CaseStatus.ESCALATED, 120)
    assert not world.status().in_service
    assert "does not take it back" in world.case().reason
    # Perhaps one of its answers was lost: that work is kept off is no longer known.
    assert world.node().isolation is Isolation.REQUESTED
