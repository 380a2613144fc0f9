"""Others terminate an instance during an attempt: the attempt continues with a successor."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, Resolution
from faultbridge.model.errors import Misconfigured
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from tests.scenarios.provider.external_termination import DIAGNOSE, FIRST, REBOOT, busy_world
from tests.scenarios.world import World
from tests.sim.fakes import Call

RESOLVED = CaseStatus.RESOLVED


def report_late_a_fault_from_before_the_verification(world: World) -> None:
    """Report a fault two hours after the case that was observed before the verification passed."""
    world.until(lambda: world.status() is NodeStatus.VALIDATING, minutes=120)
    before = world.clock.now()
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(120)
    world.fault(code="xid.79", seen=before)
    world.advance_minutes()


@pytest.mark.parametrize("code", ["xid.79", "xid.48"])
def test_an_instance_terminated_during_its_drain_is_neither_released_nor_restarted(code: str) -> None:
    world = busy_world()
    world.fault_and_react(code=code, minutes=3)
    assert world.status() is NodeStatus.DRAINING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    node = world.node()
    assert (world.released_instances(), world.restarter.restarted) == ([], [])
    assert (world.case().resolution, world.case().attempts) == (Resolution.EXTERNAL, 1)
    assert (node.status, node.former_instances) == (NodeStatus.HEALTHY, (FIRST,))
    assert "intent committed" not in world.record_history()
    assert not list(node.active())
    assert world.control().holders == {}


def test_the_timeline_records_the_external_termination_and_the_usual_statuses() -> None:
    world = busy_world()
    world.fault_and_react(minutes=3)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    story = [line for line in world.record_history() if not line.startswith("drain")]
    assert story[story.index("node draining -> provisioning") :] == [
        "node draining -> provisioning",
        "await_successor claimed",
        "node provisioning -> validating",
        "verify begun",
        "verify passed",
        "return_to_service returned",
        "node validating -> healthy",
        "case in_progress -> resolved (external)",
    ]
    gone = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "gone")
    assert gone["reason"] == f"external: another controller terminated {FIRST}"


def test_an_instance_terminated_at_the_intent_is_replaced_once() -> None:
    world = World()
    world.seam.before = lambda call: world.fleet.terminate(FIRST) if call.name == "provider.replace" else None
    world.fault_until_resolved()
    assert world.case().resolution is Resolution.REPLACED
    assert len(world.fleet.instances) == 2


def test_an_instance_terminated_during_its_restart_gets_a_successor_without_escalation() -> None:
    world = World(rules=(REBOOT,))
    world.fault_and_react(code="xid.48")
    assert world.status() is NodeStatus.REPAIRING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, world.case().resolution) == (1, Resolution.EXTERNAL)
    assert world.released_instances() == []


def test_an_instance_terminated_during_its_verification_never_passes() -> None:
    world = World(rules=(REBOOT,))
    world.fault_and_react(code="xid.48")
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.EXTERNAL)
    assert (world.node().status, world.node().former_instances) == (NodeStatus.HEALTHY, (FIRST,))
    assert (world.released_instances(), len(world.fleet.instances)) == ([], 2)
    assert "verify gone" in world.record_history()


def test_a_successor_terminated_during_its_verification_is_replaced() -> None:
    world = World()
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    second = world.instance()
    world.fleet.terminate(second)
    world.until(world.case_is(RESOLVED))
    assert (world.released_instances(), len(world.fleet.instances)) == ([FIRST], 3)
    assert world.node().status is NodeStatus.HEALTHY


@pytest.mark.parametrize("killed", [1, 2])
def test_a_case_that_released_its_instance_is_replaced_although_another_tool_terminated_its_successors(
    killed: int,
) -> None:
    world = World()
    world.fault_and_react()
    for number in range(killed):
        world.until(lambda past=number: world.status() is NodeStatus.VALIDATING and world.case().attempts > past)
        backing = world.instance()
        world.fleet.terminate(backing)
        world.advance_minutes()
    world.until(world.case_is(RESOLVED))
    assert (world.released_instances(), world.case().resolution) == ([FIRST], Resolution.REPLACED)


def test_an_instance_terminated_during_a_diagnosis_is_replaced() -> None:
    world = busy_world(DIAGNOSE)
    world.fault_and_react(code="xid.48", minutes=3)
    assert world.status() is NodeStatus.DRAINING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), world.node().former_instances) == (NodeStatus.HEALTHY, (FIRST,))


def test_a_successor_launched_before_the_termination_was_noticed_is_found() -> None:
    world = busy_world()
    world.fault_and_react()
    world.fleet.launch_delay = timedelta(0)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED), minutes=60)
    assert world.node().incarnation is not None
    assert world.node().incarnation.instance == 2


def test_an_execution_lost_after_the_termination_was_noticed_is_continued() -> None:
    world = busy_world()
    world.fleet.launch_delay = timedelta(minutes=40)
    world.fault_and_react()
    world.fleet.terminate(FIRST)
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert (world.released_instances(), world.case().attempts) == ([], 2)


def test_a_successor_whose_verification_cannot_begin_is_verified_again_and_not_repaired() -> None:
    def refuse(call: Call) -> None:
        if call.name == "verifier.start":
            world.seam.before = lambda _: None
            raise Misconfigured("the document does not exist")

    world = busy_world()
    world.fault_and_react(code="xid.48")
    world.fleet.terminate(FIRST)
    world.seam.before = refuse
    world.until(world.case_is(RESOLVED))
    assert (world.restarter.restarted, world.released_instances()) == ([], [])
    assert (world.case().resolution, world.case().attempts) == (Resolution.EXTERNAL, 2)


def test_an_unknown_probe_does_not_count_as_terminated() -> None:
    world = busy_world()
    world.provider.probe_unknown = True
    world.fault_and_react(minutes=3)
    assert world.status() is NodeStatus.DRAINING


@pytest.mark.parametrize("rule", [REBOOT, DIAGNOSE], ids=["reboot", "diagnosis"])
def test_a_late_report_of_an_external_replacement_opens_no_case(rule: Rule) -> None:
    world = busy_world(rule)
    world.fault_and_react(code="xid.48", minutes=3)
    world.fleet.terminate(FIRST)
    report_late_a_fault_from_before_the_verification(world)
    assert (list(world.node().active()), world.status()) == ([], NodeStatus.HEALTHY)


@pytest.mark.parametrize(
    ("known_for", "instance", "active"),
    [(timedelta(milliseconds=1), 1, ["xid.79"]), (timedelta(0), 1, []), (timedelta(milliseconds=1), 2, [])],
    ids=["the first", "known since the fault", "an unverified successor"],
)
def test_a_late_report_from_before_the_verification_counts_only_for_the_original_instance(
    known_for: timedelta, instance: int, active: list[str]
) -> None:
    # An instance first seen at the time of the fault may be the original or a successor.
    world = busy_world(DIAGNOSE)
    incarnation = replace(world.node().incarnation, instance=instance, since=world.clock.now() - known_for)
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, incarnation=incarnation)),
        actor=Actor.INVENTORY,
    )
    world.fault_and_react(code="xid.48")
    report_late_a_fault_from_before_the_verification(world)
    assert [condition.code for condition in world.node().active()] == active
