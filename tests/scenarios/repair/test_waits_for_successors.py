"""The wait for a successor: which instances are claimed, and what is recorded if none is launched in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from tests.scenarios.provider.test_external_termination import FIRST, busy_world
from tests.scenarios.world import GROUP, World


def claimed(world: World) -> str | None:
    incarnation = world.node().incarnation
    return incarnation.instance_id if incarnation else None


def terminated_by_another_tool() -> World:
    """Return a world whose node lost its instance during its drain; nothing was launched for it yet."""
    world = busy_world()
    world.fleet.launch_delay = timedelta(hours=3)
    world.fault_and_react()
    world.fleet.terminate(FIRST)
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    return world


def test_the_former_instance_is_not_claimed_again_if_it_is_listed_once_more() -> None:
    world = terminated_by_another_tool()
    world.fleet.instances[FIRST] = replace(world.fleet.instances[FIRST], alive=True)
    world.advance_minutes(10)
    assert world.status() is NodeStatus.PROVISIONING
    successor = world.fleet.launch(GROUP)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert claimed(world) == successor


def test_a_launched_instance_is_claimed_only_once_it_runs() -> None:
    world = World()
    world.launch_from_template()
    world.fleet.launch_delay = timedelta(minutes=10)
    world.fleet.terminate(FIRST)
    world.fault_and_react()
    world.until(lambda: claimed(world) != FIRST)
    assert world.clock.now() >= world.fleet.instances[str(claimed(world))].launched_at
    world.until(world.case_is(CaseStatus.RESOLVED))


def test_an_instance_without_a_known_slot_is_claimed_for_a_node_that_has_one() -> None:
    world = World()
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, placement=replace(state.placement, slot="slot-7"))),
        actor=Actor.INVENTORY,
    )
    world.fault_until_resolved()
    assert claimed(world) in world.live_instances()
    assert world.released_instances() == [FIRST]


def test_without_a_successor_in_time_the_case_is_escalated_with_the_instance_that_is_gone() -> None:
    world = World()
    world.fleet.capacity_left = 0
    world.fault_and_react()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert world.case().reason == f"TIMEOUT: no successor yet in {GROUP}"
    (step,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "timed_out"]
    assert (step["step"], step["old_instance"], step["failure"]) == ("await_successor", FIRST, "TIMEOUT")
