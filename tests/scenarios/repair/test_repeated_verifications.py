"""Verifications that are started again, and failed ones: what counts against the node, and the next repair action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.provider.external_termination import DIAGNOSE, busy_world
from tests.scenarios.repair.builders import FAILED, UNANSWERED
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import World
from tests.sim.fakes.instance_commands import PASSED


def without_a_result() -> World:
    """Reset the GPUs of a node, and begin a verification that will end without a result."""
    world = World(rules=(RESET,))
    world.verifier.result = UNANSWERED
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    return world


def until_repeated(world: World) -> None:
    """Wait until the verification is started again, and let this one pass."""
    world.until(lambda: world.record_history().count("verify begun") > 1)
    world.verifier.result = PASSED


def test_a_verification_without_a_result_is_started_again_as_another_one() -> None:
    world = without_a_result()
    until_repeated(world)
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert len(world.verifier.started) == world.record_history().count("verify begun") == 2


def test_a_fault_during_a_verification_without_a_result_fails_the_next_one() -> None:
    world = without_a_result()
    world.advance_minutes()
    world.fault(code="xid.48")
    world.pause_repairs(paused=True)
    until_repeated(world)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    assert (world.status(), world.case().repair_action) == (NodeStatus.QUARANTINED, RepairAction.REBOOT_NODE)
    assert "verify passed" not in world.record_history()


def test_a_confirmed_claim_whose_repair_fails_gets_the_next_repair_action() -> None:
    world = World()
    before = world.instance()
    world.verifier.results[before] = FAILED
    world.claim_and_react(code="xid.48", severity=Severity.FATAL, action=Action.REBOOT_NODE)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert [action for action, _, _ in world.restarter.restarted] == [RepairAction.REBOOT_NODE]
    assert world.released_instances() == [before]


def test_a_condition_that_a_passed_diagnosis_does_not_end_gets_the_repair_action_that_it_needs() -> None:
    world = busy_world(DIAGNOSE)
    world.fault_and_react(code="xid.48")
    world.fault(code="net.link_absent", severity=Severity.FATAL, action=Action.REPLACE_NODE)
    world.until(lambda: "verify begun" in world.record_history())
    world.pause_repairs(paused=True)
    world.until(world.case_is(CaseStatus.QUEUED), minutes=60)
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert failed["reason"] == "diagnostics passed, but a remaining condition needs replace_node"
    assert world.case().repair_action is RepairAction.REPLACE_NODE


def test_a_failed_verification_without_a_finding_still_states_a_reason() -> None:
    world = World()
    world.verifier.result = Verification(Verdict.FAILED)
    world.fault_and_react()
    world.until(lambda: "verify failed" in world.record_history())
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert (failed["reason"], failed["failure"]) == ("the verification failed", "VERIFY_FAILED")


def test_an_instance_that_is_gone_before_its_verification_is_not_verified() -> None:
    world = World(rules=(RESET,))
    handler, gone = world.workflow.handler, world.instance()

    def terminate(payload: Mapping[str, Any]) -> Any:
        if payload["step"] == "verify":
            world.fleet.terminate(gone)
        return handler(payload)

    world.workflow.handler = terminate
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify gone" in world.record_history())
    assert world.verifier.started == {}


def test_a_verification_that_ends_with_its_instance_is_not_recorded_as_one_without_a_result() -> None:
    world = World(rules=(RESET,))
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.fleet.terminate(world.instance())
    world.until(lambda: "verify gone" in world.record_history())
    assert "verify no_result" not in world.record_history()
