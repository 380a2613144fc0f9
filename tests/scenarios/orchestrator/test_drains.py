"""Drains: the node is cordoned first if that is not certain, and only a drain that began may end by its deadline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.policy import Limits
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.orchestrator.unreachable_orchestrator import (
    DEAD,
    LONG,
    PROCEED,
    QUEUED,
    unreachable_before_drain,
    unreachable_world,
)
from tests.scenarios.repair.builders import begin_update, ignore, maintain
from tests.scenarios.world import World, limits
from tests.sim.fakes import Call


def world_between_attempts() -> World:
    """Return a world whose node has a confirmed cordon, and whose first attempt the provider has refused."""
    world = World(orchestrated=True)
    world.provider.fail_next(ProviderFailure.CONFLICT)
    world.fault_and_react()
    world.until(lambda: world.case().status is QUEUED and world.case().attempts == 1)
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.CONFIRMED)
    world.fleet.launch_delay = timedelta(hours=3)
    return world


def test_the_second_attempt_cordons_a_node_again_that_another_process_uncordoned() -> None:
    world = world_between_attempts()
    world.orchestrator.cordoned.clear()
    world.until(lambda: not world.fleet.is_alive("i-00000000000000001"))
    assert world.case().attempts == 2
    assert world.orchestrator.cordoned == {"node-1"}


def test_the_first_attempt_relies_on_a_confirmed_cordon() -> None:
    world = World(orchestrated=True)
    world.pause_repairs(paused=True)
    world.fault_and_react()
    assert world.node().isolation is Isolation.CONFIRMED
    world.orchestrator.cordoned.clear()
    world.pause_repairs(paused=False)
    world.until(lambda: not world.fleet.is_alive("i-00000000000000001"))
    assert (world.case().attempts, world.orchestrator.cordoned) == (1, set())


def test_the_second_attempt_continues_for_a_node_that_left_the_orchestrator() -> None:
    world = world_between_attempts()
    world.orchestrator.unknown_nodes.add("node-1")
    world.until(lambda: not world.fleet.is_alive("i-00000000000000001"))
    assert world.case().attempts == 2


def test_a_drain_that_never_began_is_not_forced_at_its_deadline_although_the_fault_is_fatal() -> None:
    world = World(orchestrated=True)

    def give_no_answer(call: Call) -> None:
        if call.name == "provider.probe":
            raise Transient("no answer")

    world.seam.before = give_no_answer
    world.fault_and_react()
    world.until(lambda: world.case().attempts == 1 and world.case().status is QUEUED)
    assert world.case().reason == "TIMEOUT: the drain could not begin: no answer"
    assert "drain forced" not in world.record_history()
    assert (world.status(), world.control().holders) == (NodeStatus.QUARANTINED, {})
    world.seam.before = lambda _: None
    world.until(world.case_is(CaseStatus.RESOLVED))


def test_jobs_get_the_time_that_the_policy_gives_them_to_leave() -> None:
    world = World(orchestrated=True, limits=limits(drain_deadline=timedelta(hours=2)))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=90)
    world.fault_and_react()
    world.advance_minutes(60)
    assert (world.status(), world.released_instances()) == (NodeStatus.DRAINING, [])
    world.until(lambda: bool(world.released_instances()))
    assert "drain drained" in world.record_history()


def test_attempts_that_an_unreachable_orchestrator_stops_do_not_count() -> None:
    world = unreachable_before_drain()
    world.advance_minutes(300)
    assert world.case().attempts > Limits().attempts
    assert (world.case().status, world.case().counted_attempts) == (QUEUED, 0)


@pytest.mark.parametrize("minutes", [15, 25])
def test_an_outage_before_the_drain_does_not_extend_the_deadline_of_the_drain(minutes: int) -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.fault()  # a lost GPU, whose work is evicted
    world.pause_repairs(paused=True)
    world.advance_minutes(minutes)
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.REQUESTED)
    world.orchestrator.unreachable_until = None
    world.orchestrator.busy_until["node-1"] = world.clock.now() + LONG
    world.pause_repairs(paused=False)
    world.until(lambda: world.status() is NodeStatus.DRAINING, minutes=5)
    attempt = world.case().attempt
    assert attempt is not None
    assert attempt.since is not None
    assert world.node().orchestrator_lost_at is None
    assert attempt.deadline == attempt.since + Limits().drain_deadline


def cancel(world: World) -> None:
    world.orders.cancel(world.case().id, OperatorOrder("arn:aws:iam::123456789012:user/ada", "a false alarm"))


@pytest.mark.parametrize("stop", [cancel, begin_update, ignore, maintain])
def test_an_attempt_that_must_stop_does_not_wait_until_its_node_is_drained(stop: Callable[[World], None]) -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + LONG
    world.fault_and_react()
    assert world.status() is NodeStatus.DRAINING
    stop(world)
    world.until(lambda: world.case().status is QUEUED or world.case().attempts == 2, minutes=12)
    assert not [line for line in world.record_history() if line.startswith("drain ")]
