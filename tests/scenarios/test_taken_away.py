"""A rival takes a machine away in mid-attempt: the attempt goes on at the empty node, and nobody acts twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.faults import Action
from faultbridge.domain.policy import Match, Rule
from tests.scenarios.world import CLUSTER, World

RESOLVED = CaseStatus.RESOLVED
FIRST = "i-00000000000000001"
REBOOT = Rule("reboot", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, release_without_capacity=True)


DIAGNOSE = Rule("diagnose", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS, release_without_capacity=True)


def busy_world(rule: Rule = REBOOT) -> World:
    """A world whose faulty node still has work for a quarter of an hour."""
    world = World(orchestrated=True, rules=(rule, Rule("rest", release_without_capacity=True)))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=15)
    return world


def tell_late_of_what_was_before_the_proof(world: World) -> None:
    """Let a fault come up two hours after the case, that was seen before its machine was proven."""
    world.until(lambda: world.status() is NodeStatus.VALIDATING, minutes=120)
    before = world.clock.now()
    world.until(world.case_is(RESOLVED))
    world.minute(120)
    world.fault(code="xid.79", seen=before)
    world.minute()


@pytest.mark.parametrize("code", ["xid.79", "xid.48"])
def test_a_machine_that_goes_while_its_work_leaves_is_neither_given_up_nor_restarted(code: str) -> None:
    world = busy_world()
    world.fault(code=code)
    world.listen()
    world.minute(3)
    assert world.status() is NodeStatus.DRAINING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    node = world.node()
    assert (world.released(), world.restarter.restarted) == ([], [])
    assert (world.case().resolution, world.case().attempts) == (Resolution.EXTERNAL, 1)
    assert (node.status, node.former_instances) == (NodeStatus.HEALTHY, (FIRST,))
    assert "intent committed" not in world.story()
    assert not list(node.active())
    assert world.control().holders == {}


def test_the_record_says_that_others_did_it_and_goes_through_the_same_statuses() -> None:
    world = busy_world()
    world.fault()
    world.listen()
    world.minute(3)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    story = [line for line in world.story() if not line.startswith("drain")]
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
    assert gone["reason"] == f"external: {FIRST} was taken away by others"


def test_a_machine_that_goes_in_the_moment_of_the_intent_is_replaced_once() -> None:
    world = World()
    world.seam.before = lambda call: world.fleet.terminate(FIRST) if call.name == "provider.replace" else None
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.case().resolution is Resolution.REPLACED
    assert len(world.fleet.instances) == 2


def test_a_machine_that_goes_while_it_restarts_gets_its_successor_without_another_repair_action() -> None:
    world = World(rules=(REBOOT,))
    world.fault(code="xid.48")
    world.listen()
    assert world.status() is NodeStatus.REPAIRING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, world.case().resolution) == (1, Resolution.EXTERNAL)
    assert world.released() == []


def test_a_machine_that_goes_while_it_is_proven_is_never_taken_for_good() -> None:
    world = World(rules=(REBOOT,))
    world.fault(code="xid.48")
    world.listen()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.EXTERNAL)
    assert (world.node().status, world.node().former_instances) == (NodeStatus.HEALTHY, (FIRST,))
    assert (world.released(), len(world.fleet.instances)) == ([], 2)
    assert "verify gone" in world.story()


def test_a_successor_that_goes_while_it_is_proven_gets_a_successor_itself() -> None:
    world = World()
    world.fault()
    world.listen()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    second = world.node().incarnation
    assert second is not None
    world.fleet.terminate(str(second.instance_id))
    world.until(world.case_is(RESOLVED))
    assert (world.released(), len(world.fleet.instances)) == ([FIRST], 3)
    assert world.node().status is NodeStatus.HEALTHY


def test_a_machine_that_goes_during_a_mere_diagnosis_leaves_its_node_to_another() -> None:
    world = busy_world(DIAGNOSE)
    world.fault(code="xid.48")
    world.listen()
    world.minute(3)
    assert world.status() is NodeStatus.DRAINING
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), world.node().former_instances) == (NodeStatus.HEALTHY, (FIRST,))


def test_a_successor_that_was_there_before_anybody_noticed_is_found() -> None:
    world = busy_world()
    world.fault()
    world.listen()
    world.fleet.launch_delay = timedelta(0)
    world.fleet.terminate(FIRST)
    world.until(world.case_is(RESOLVED), minutes=60)
    assert world.node().incarnation is not None
    assert world.node().incarnation.instance == 2


def test_an_execution_lost_after_it_was_noticed_goes_on_at_the_empty_node() -> None:
    world = busy_world()
    world.fleet.launch_delay = timedelta(minutes=40)
    world.fault()
    world.listen()
    world.fleet.terminate(FIRST)
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert (world.released(), world.case().attempts) == ([], 2)


def test_a_probe_that_nobody_answers_takes_no_machine_for_gone() -> None:
    world = busy_world()
    world.provider.blind = True
    world.fault()
    world.listen()
    world.minute(3)
    assert world.status() is NodeStatus.DRAINING


@pytest.mark.parametrize("rule", [REBOOT, DIAGNOSE], ids=["reboot", "diagnosis"])
def test_what_the_machine_said_that_others_brought_is_no_trouble_when_it_comes_late(rule: Rule) -> None:
    world = busy_world(rule)
    world.fault(code="xid.48")
    world.listen()
    world.minute(3)
    world.fleet.terminate(FIRST)
    tell_late_of_what_was_before_the_proof(world)
    assert (list(world.node().active()), world.status()) == ([], NodeStatus.HEALTHY)


@pytest.mark.parametrize(
    ("known_for", "instance", "heard"),
    [(timedelta(milliseconds=1), 1, ["xid.79"]), (timedelta(0), 1, []), (timedelta(milliseconds=1), 2, [])],
    ids=["the first", "known since the trouble", "a successor that nobody has proven"],
)
def test_what_was_said_before_a_proof_is_heard_late_only_of_the_machine_that_was_there_before_the_trouble(
    known_for: timedelta, instance: int, heard: list[str]
) -> None:
    # Which of the two a machine is that was first known in the very moment of the trouble, nobody can say.
    world = busy_world(DIAGNOSE)
    sits = replace(world.node().incarnation, instance=instance, since=world.clock.now() - known_for)
    config = world.rulebook.config(CLUSTER)
    world.append(
        world.key(), lambda state, _: Transition(replace(state, incarnation=sits)), actor=Actor.INVENTORY, config=config
    )
    world.fault(code="xid.48")
    world.listen()
    tell_late_of_what_was_before_the_proof(world)
    assert [condition.code for condition in world.node().active()] == heard
