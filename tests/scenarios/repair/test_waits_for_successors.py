"""The wait for a successor: which instances are claimed, and what is recorded if none is launched in time."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import LaunchedInstance
from tests.scenarios.provider.external_termination import FIRST, REBOOT, busy_world
from tests.scenarios.world import GROUP, World, limits


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


def world_with_slot() -> World:
    """Return a world whose node has a slot of the provider."""
    world = World()
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, placement=replace(state.placement, slot="slot-7"))),
        actor=Actor.INVENTORY,
    )
    return world


def test_an_instance_without_a_known_slot_is_claimed_for_a_node_that_has_one() -> None:
    world = world_with_slot()
    world.fault_until_resolved()
    assert claimed(world) in world.live_instances()
    assert world.released_instances() == [FIRST]


def test_without_a_successor_in_time_the_case_is_escalated_with_the_instance_that_is_gone() -> None:
    world = World()
    world.fleet.capacity_left = 0
    world.fault_until(CaseStatus.ESCALATED)
    assert world.case().reason == f"TIMEOUT: no successor yet in {GROUP}"
    (step,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "timed_out"]
    assert (step["step"], step["old_instance"], step["failure"]) == ("await_successor", FIRST, "TIMEOUT")


def test_an_instance_that_was_launched_for_the_slot_of_another_node_is_not_claimed() -> None:
    world, slots = world_with_slot(), {"i-00000000000000002": "slot-8", "i-00000000000000003": "slot-7"}
    listed = world.provider.candidates

    def candidates(group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        return tuple(replace(one, slot=slots.get(one.instance_id)) for one in listed(group, launched_after))

    world.provider.candidates = candidates  # type: ignore[method-assign]
    world.fault_and_react(minutes=10)
    assert world.status() is NodeStatus.PROVISIONING
    third = world.fleet.launch(GROUP)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert claimed(world) == third


def test_an_instance_that_was_launched_before_the_intent_is_not_claimed() -> None:
    world = World()
    world.fleet.capacity_left = 0
    earlier = world.fleet.launch(GROUP)
    world.clock.advance(timedelta(minutes=5))
    world.fault_and_react(minutes=10)
    assert (world.status(), world.released_instances()) == (NodeStatus.PROVISIONING, [FIRST])
    world.fleet.set_capacity(1)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert claimed(world) not in {FIRST, earlier}


def test_successors_are_listed_from_the_whole_second_of_the_intent_on() -> None:
    world, asked = World(), set()
    listed = world.provider.candidates

    def candidates(group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        asked.add(launched_after)
        return listed(group, launched_after)

    world.provider.candidates = candidates  # type: ignore[method-assign]
    world.clock.advance(timedelta(milliseconds=400))
    world.fault_and_react()
    attempt = world.case().attempt
    assert attempt is not None
    assert attempt.intent is not None
    assert asked == {attempt.intent.at.replace(microsecond=0)}


def test_a_successor_that_another_tool_launched_before_a_restart_is_claimed() -> None:
    world = World(rules=(REBOOT,))
    successor = world.fleet.launch(GROUP)
    world.clock.advance(timedelta(minutes=1))
    world.fault_and_react(code="xid.48")
    assert world.status() is NodeStatus.REPAIRING
    world.fleet.remove(FIRST)
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert claimed(world) == successor


def test_without_a_successor_in_time_for_an_instance_that_another_tool_terminated_the_entry_names_it() -> None:
    world = busy_world()
    world.policy = replace(world.policy, limits=limits(launch_deadline=timedelta(hours=1)))
    world.fleet.capacity_left = 0
    world.fault_and_react()
    world.fleet.terminate(FIRST)
    world.until(world.case_is(CaseStatus.ESCALATED), minutes=120)
    (step,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "timed_out"]
    assert (step["step"], step["old_instance"]) == ("await_successor", FIRST)
