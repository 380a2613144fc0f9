"""Reset and reboot: the instance is mended where it is, verified, and given up only when that does not help."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.domain.cases import RepairAction, Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.policy import Match, Rule
from faultbridge.ports import ProviderFailure, Restart, RestartState, Verdict, Verification
from faultbridge.simulation.fakes import Call
from tests.builders import OTHER_GPU
from tests.scenarios.world import World, limits

RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED
FIRST = "i-00000000000000001"
BROKEN = Verification(Verdict.FAILED, ("memory: fail",))
RESET = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)
REBOOT = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE, release_without_capacity=True)


def world_in_need(code: str = "xid.79", **others: object) -> World:
    world = World(rules=(RESET, REBOOT), **others)  # type: ignore[arg-type]  # the arguments of a world
    world.fault(code=code)
    world.listen()
    return world


def cured_by(world: World, wanted: RepairAction) -> None:
    """Let the machine fail its verifications until it has been through this repair action."""
    world.verifier.results[FIRST] = BROKEN

    def cure(repair_action: RepairAction, instance: str) -> None:
        if repair_action is wanted:
            world.verifier.results.pop(instance, None)

    world.restarter.on_restart = cure


def repair_actions(world: World) -> list[tuple[str, str]]:
    return [(repair_action.value, instance) for repair_action, instance, _ in world.restarter.restarted]


def test_a_reboot_that_cures_brings_the_same_instance_back_verified() -> None:
    world = world_in_need()
    world.until(world.case_is(RESOLVED))
    assert world.story()[5:] == [
        "node degraded -> quarantined",
        "case queued -> in_progress",
        "node quarantined -> draining",
        "drain not_applicable",
        "collect kept",
        "intent committed",
        "node draining -> repairing",
        "repair_in_place begun",
        "repair_in_place back",
        "node repairing -> validating",
        "verify begun",
        "verify passed",
        "cleared xid.79",
        "return_to_service not_applicable",
        "node validating -> healthy",
        "case in_progress -> resolved (repaired)",
    ]
    assert world.case().resolution is Resolution.REPAIRED
    assert (repair_actions(world), world.released()) == ([("reboot", FIRST)], [])
    node = world.node()
    assert node.incarnation is not None
    assert (node.incarnation.instance_id, node.incarnation.instance, node.incarnation.boot) == (FIRST, 1, 2)
    assert world.control().holders == {}


def test_a_boot_that_the_machine_itself_tells_of_first_is_the_same_boot() -> None:
    world = World(rules=(RESET, REBOOT))
    world.tells_of_boot("boot-before")
    world.fault()
    world.listen()
    world.until(lambda: bool(world.restarter.restarted))
    ((_, _, token),) = world.restarter.restarted
    world.minute(3)
    world.tells_of_boot(f"boot-{token}")
    world.until(world.case_is(RESOLVED))
    node = world.node()
    assert node.incarnation is not None
    assert (node.incarnation.boot, node.incarnation.boot_id) == (2, f"boot-{token}")


def test_a_reset_that_cures_leaves_the_boot_as_it_is() -> None:
    world = world_in_need("xid.48")
    world.until(world.case_is(RESOLVED))
    assert repair_actions(world) == [("reset", FIRST)]
    assert world.node().incarnation == World().node().incarnation
    assert not list(world.node().active())


def test_a_reboot_that_does_not_cure_is_followed_by_a_replacement() -> None:
    world = world_in_need()
    world.verifier.results[FIRST] = BROKEN
    world.until(world.case_is(RESOLVED))
    assert (repair_actions(world), world.released()) == ([("reboot", FIRST)], [FIRST])
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.REPLACED)
    assert world.status() is NodeStatus.HEALTHY


def test_the_ladder_is_climbed_repair_action_by_repair_action() -> None:
    world = world_in_need("xid.48")
    world.verifier.results[FIRST] = BROKEN
    world.until(world.case_is(RESOLVED))
    assert (repair_actions(world), world.released()) == ([("reset", FIRST), ("reboot", FIRST)], [FIRST])
    intents = [body["data"]["repair_action"] for body in world.bodies() if body["data"].get("step") == "intent"]
    assert intents == ["reset", "reboot", "replace"]


def test_a_machine_that_only_a_reboot_cures_is_not_replaced() -> None:
    world = world_in_need("xid.48")
    cured_by(world, RepairAction.REBOOT_NODE)
    world.until(world.case_is(RESOLVED))
    assert (repair_actions(world), world.released()) == ([("reset", FIRST), ("reboot", FIRST)], [])
    assert world.case().resolution is Resolution.REPAIRED


def test_an_instance_that_never_comes_back_from_its_reboot_is_replaced() -> None:
    world = world_in_need()
    world.restarter.duration = timedelta(days=1)
    minutes = world.until(world.case_is(RESOLVED))
    assert minutes > 30
    assert "repair_in_place timed_out" in world.story()
    assert world.released() == [FIRST]


def test_a_reset_that_the_instance_refuses_climbs_at_once() -> None:
    world = world_in_need("xid.48")
    world.restarter.results[FIRST] = Restart(RestartState.FAILED, "GPU 00000000:C1:00.0 is in use")
    world.until(world.case_is(RESOLVED))
    assert repair_actions(world) == [("reset", FIRST), ("reboot", FIRST)]
    assert world.released() == [FIRST]
    told = [body["data"] for body in world.bodies() if body["data"].get("step") == "repair_in_place"]
    assert {one["reason"] for one in told if one["outcome"] == "failed"} == {"GPU 00000000:C1:00.0 is in use"}


def test_an_instance_whose_agent_is_dead_climbs_without_a_restart() -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.NOT_FOUND)
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert (repair_actions(world), world.released()) == ([], [FIRST])
    assert "repair_in_place out_of_reach" in world.story()


@pytest.mark.parametrize("effect", [True, False])
@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED])
def test_an_uncertain_answer_restarts_nothing_twice(failure: ProviderFailure, effect: bool) -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(failure, effect=effect)
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert (repair_actions(world), world.released()) == ([("reboot", FIRST)], [])
    assert world.case().attempts == 1


def test_a_restart_that_may_not_be_done_is_a_persons() -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault()
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert (world.status(), world.released()) == (NodeStatus.FAILED, [])
    assert world.case().reason.startswith("PERMISSION_DENIED")


def test_the_intent_stands_before_the_restart() -> None:
    world = World(rules=(RESET, REBOOT))
    seen: list[list[str]] = []

    def look(call: Call) -> None:
        if call.name == "restarter.restart":
            seen.append(world.story())

    world.seam.before = look
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert len(seen) == 1
    assert "intent committed" in seen[0]


def test_an_execution_killed_after_the_intent_of_a_reboot_goes_on_without_a_second_one() -> None:
    world = world_in_need()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert repair_actions(world) == [("reboot", FIRST)]
    assert world.case().attempts == 2
    assert world.story().count("intent committed") == 1


class TestAFaultThatJoins:
    """A fault of the same node joins its live case and may ask for more than the case was opened for."""

    def test_a_case_that_waits_is_raised_to_what_the_new_fault_asks_for(self) -> None:
        world = World(rules=(RESET, REBOOT), limits=limits(concurrent=0))
        world.fault(code="xid.48")
        world.listen()
        world.fault(code="xid.79", component=OTHER_GPU)
        assert (world.case().repair_action, world.case().rule) == (RepairAction.REBOOT_NODE, "reboot")
        assert "note information" in world.story()

    def test_a_fault_before_the_intent_sends_the_case_back_for_the_higher_repair_action(self) -> None:
        world = World(rules=(RESET, REBOOT), orchestrated=True)
        world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
        world.fault(code="xid.48")
        world.listen()
        world.minute()
        world.fault(code="xid.79", component=OTHER_GPU)
        world.until(world.case_is(RESOLVED))
        assert repair_actions(world) == [("reboot", FIRST)]

    def test_a_fault_that_the_repair_action_does_not_end_makes_the_case_climb_although_the_verification_passed(
        self,
    ) -> None:
        world = World(rules=(RESET, REBOOT))
        world.fault(code="xid.48")
        world.listen()
        world.fault(code="xid.79", component=OTHER_GPU)
        world.until(world.case_is(RESOLVED))
        assert repair_actions(world) == [("reset", FIRST), ("reboot", FIRST)]
        assert not list(world.node().active())

    def test_what_is_seen_while_the_instance_restarts_does_not_speak_against_it_afterwards(self) -> None:
        world = world_in_need()
        world.minute(2)
        world.fault()
        world.until(world.case_is(RESOLVED))
        assert (repair_actions(world), world.released()) == ([("reboot", FIRST)], [])


@pytest.mark.parametrize(("severity", "verified"), [(Severity.WARNING, True), (Severity.ERROR, False)])
def test_an_error_that_is_seen_during_a_verification_outweighs_it(severity: Severity, verified: bool) -> None:
    world = World(rules=(RESET, Rule("new", Match(codes=("xid.92",)), severity=severity)))
    world.fault(code="xid.48")
    world.listen()
    world.until(lambda: "verify begun" in world.story())
    world.clock.advance(1)
    world.fault(code="xid.92", component=OTHER_GPU)
    world.until(lambda: world.story().count("verify begun") > 1 or world.case_is(RESOLVED)())
    assert ("verify passed" in world.story()) is verified


def test_a_repair_action_that_needs_approval_is_asked_about_when_the_ladder_reaches_it() -> None:
    asks = Rule("asks", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, approval=(RepairAction.REPLACE_NODE,))
    world = World(rules=(asks,))
    world.verifier.results[FIRST] = BROKEN
    world.fault(code="xid.48")
    world.listen()
    world.until(lambda: world.case().asking is not None)
    assert (repair_actions(world), world.released()) == ([("reboot", FIRST)], [])
    assert world.case().repair_action is RepairAction.REPLACE_NODE


def longest(world: World) -> Iterator[int]:
    return (execution.transitions for execution in world.workflow.executions.values())


def test_no_attempt_at_any_repair_action_comes_near_thirty_transitions() -> None:
    world = world_in_need("xid.48")
    world.verifier.results[FIRST] = BROKEN
    world.until(world.case_is(RESOLVED))
    assert len(world.workflow.executions) == 3
    assert max(longest(world)) <= 20
