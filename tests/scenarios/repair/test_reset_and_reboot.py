"""Reset and reboot: the instance is repaired in place and verified; it is replaced only if that fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.catalog import Catalog, Scope
from faultbridge.model.enums import NodeStatus, ProviderFailure, RepairAction, Resolution
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component
from faultbridge.model.policy import Match, Rule
from faultbridge.record.ports.compute import Restart, RestartState, Verdict, Verification
from tests.builders import OTHER_GPU
from tests.scenarios import world as scenario
from tests.scenarios.repair.builders import ESCALATED, FIRST, REBOOT, RESET, RESOLVED, faulty_world, restarts
from tests.scenarios.world import World, limits
from tests.sim.fakes import Call
from tests.sim.invariants.coverage import network_faults_ended_by_reboot

FAILED = Verification(Verdict.FAILED, ("memory: fail",))


def fix_at(world: World, wanted: RepairAction) -> None:
    """Make the instance fail its verifications until a given repair action was run."""
    world.verifier.results[FIRST] = FAILED

    def fix(repair_action: RepairAction, instance: str) -> None:
        if repair_action is wanted:
            world.verifier.results.pop(instance, None)

    world.restarter.on_restart = fix


def test_a_successful_reboot_returns_the_same_instance_verified() -> None:
    world = faulty_world()
    world.until(world.case_is(RESOLVED))
    assert world.record_history()[5:] == [
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
    assert (restarts(world), world.released_instances()) == ([("reboot_node", FIRST)], [])
    node = world.node()
    assert node.incarnation is not None
    assert (node.incarnation.instance_id, node.incarnation.instance, node.incarnation.boot) == (FIRST, 1, 2)
    assert world.control().holders == {}


def test_a_boot_first_reported_by_the_instance_is_the_same_boot() -> None:
    world = World(rules=(RESET, REBOOT))
    world.report_boot("boot-before")
    world.fault_and_react()
    world.until(lambda: bool(world.restarter.restarted))
    ((_, _, token),) = world.restarter.restarted
    world.advance_minutes(3)
    world.report_boot(f"boot-{token}")
    world.until(world.case_is(RESOLVED))
    node = world.node()
    assert node.incarnation is not None
    assert (node.incarnation.boot, node.incarnation.boot_id) == (2, f"boot-{token}")


def test_a_successful_reset_keeps_the_boot() -> None:
    world = faulty_world("xid.48")
    world.until(world.case_is(RESOLVED))
    assert restarts(world) == [("reset_gpu", FIRST)]
    assert world.node().incarnation == World().node().incarnation
    assert not list(world.node().active())


def test_an_unsuccessful_reboot_escalates_to_a_replacement() -> None:
    world = faulty_world()
    world.verifier.results[FIRST] = FAILED
    world.until(world.case_is(RESOLVED))
    assert (restarts(world), world.released_instances()) == ([("reboot_node", FIRST)], [FIRST])
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.REPLACED)
    assert world.status() is NodeStatus.HEALTHY


def test_repair_actions_escalate_one_by_one() -> None:
    world = faulty_world("xid.48")
    world.verifier.results[FIRST] = FAILED
    world.until(world.case_is(RESOLVED))
    assert (restarts(world), world.released_instances()) == ([("reset_gpu", FIRST), ("reboot_node", FIRST)], [FIRST])
    intents = [body["data"]["repair_action"] for body in world.bodies() if body["data"].get("step") == "intent"]
    assert intents == ["reset_gpu", "reboot_node", "replace_node"]


def test_an_instance_fixed_by_a_reboot_is_not_replaced() -> None:
    world = faulty_world("xid.48")
    fix_at(world, RepairAction.REBOOT_NODE)
    world.until(world.case_is(RESOLVED))
    assert (restarts(world), world.released_instances()) == ([("reset_gpu", FIRST), ("reboot_node", FIRST)], [])
    assert world.case().resolution is Resolution.REPAIRED


def test_an_instance_that_does_not_return_from_its_reboot_is_replaced() -> None:
    world = faulty_world()
    world.restarter.duration = timedelta(days=1)
    minutes = world.until(world.case_is(RESOLVED))
    assert minutes > 30
    assert "repair_in_place timed_out" in world.record_history()
    assert world.released_instances() == [FIRST]


def test_a_reboot_gets_the_time_that_the_policy_gives_it() -> None:
    world = faulty_world(limits=limits(repair_deadline=timedelta(hours=2)))
    world.restarter.duration = timedelta(minutes=90)
    world.until(world.case_is(RESOLVED))
    assert (world.case().resolution, world.released_instances()) == (Resolution.REPAIRED, [])


def test_a_refused_reset_escalates_at_once() -> None:
    world = faulty_world("xid.48")
    world.restarter.results[FIRST] = Restart(RestartState.FAILED, "GPU 00000000:C1:00.0 is in use")
    world.until(world.case_is(RESOLVED))
    assert restarts(world) == [("reset_gpu", FIRST), ("reboot_node", FIRST)]
    assert world.released_instances() == [FIRST]
    steps = [body["data"] for body in world.bodies() if body["data"].get("step") == "repair_in_place"]
    assert {one["reason"] for one in steps if one["outcome"] == "failed"} == {"GPU 00000000:C1:00.0 is in use"}


def test_an_instance_without_a_working_agent_escalates_without_a_restart() -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.NOT_FOUND)
    world.fault_until_resolved()
    assert (restarts(world), world.released_instances()) == ([], [FIRST])
    assert "repair_in_place out_of_reach" in world.record_history()


@pytest.mark.parametrize("effect", [True, False])
@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED])
def test_an_uncertain_answer_causes_no_second_restart(failure: ProviderFailure, effect: bool) -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(failure, effect=effect)
    world.fault_until_resolved()
    assert (restarts(world), world.released_instances()) == ([("reboot_node", FIRST)], [])
    assert world.case().attempts == 1


def test_a_restart_without_permission_is_escalated() -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(ESCALATED)
    assert (world.status(), world.released_instances()) == (NodeStatus.FAILED, [])
    assert world.case().reason.startswith("PERMISSION_DENIED")


def test_the_intent_is_recorded_before_the_restart() -> None:
    world = World(rules=(RESET, REBOOT))
    seen: list[list[str]] = []

    def record(call: Call) -> None:
        if call.name == "restarter.restart":
            seen.append(world.record_history())

    world.seam.before = record
    world.fault_until_resolved()
    assert len(seen) == 1
    assert "intent committed" in seen[0]


def test_an_execution_lost_after_the_reboot_intent_continues_without_a_second_reboot() -> None:
    world = faulty_world()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert restarts(world) == [("reboot_node", FIRST)]
    assert world.case().attempts == 2
    assert world.record_history().count("intent committed") == 1


class TestFaultThatJoinsACase:
    """A second fault of a node joins its live case and may require a stronger repair action."""

    def test_a_waiting_case_is_raised_to_the_action_of_the_new_fault(self) -> None:
        world = World(rules=(RESET, REBOOT), limits=limits(concurrent=0))
        world.fault_and_react(code="xid.48")
        world.fault(code="xid.79", component=OTHER_GPU)
        assert (world.case().repair_action, world.case().rule) == (RepairAction.REBOOT_NODE, "reboot")
        assert "note information" in world.record_history()

    def test_a_fault_before_the_intent_requeues_the_case_for_the_stronger_action(self) -> None:
        world = World(rules=(RESET, REBOOT), orchestrated=True)
        world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
        world.fault_and_react(code="xid.48", minutes=1)
        world.fault(code="xid.79", component=OTHER_GPU)
        world.until(world.case_is(RESOLVED))
        assert restarts(world) == [("reboot_node", FIRST)]

    def test_a_fault_that_the_action_does_not_end_escalates_although_the_verification_passed(self) -> None:
        world = World(rules=(RESET, REBOOT))
        world.fault_and_react(code="xid.48")
        world.fault(code="xid.79", component=OTHER_GPU)
        world.until(world.case_is(RESOLVED))
        assert restarts(world) == [("reset_gpu", FIRST), ("reboot_node", FIRST)]
        assert not list(world.node().active())

    def test_a_fault_seen_during_the_restart_does_not_fail_the_repair(self) -> None:
        world = faulty_world()
        world.advance_minutes(2)
        world.fault()
        world.until(world.case_is(RESOLVED))
        assert (restarts(world), world.released_instances()) == ([("reboot_node", FIRST)], [])


@pytest.mark.parametrize(("severity", "verified"), [(Severity.WARNING, True), (Severity.ERROR, False)])
def test_an_error_seen_during_a_verification_overrides_its_result(severity: Severity, verified: bool) -> None:
    world = World(rules=(RESET, Rule("new", Match(codes=("xid.92",)), severity=severity)))
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify begun" in world.record_history())
    world.clock.advance(1)
    world.fault(code="xid.92", component=OTHER_GPU)
    world.until(lambda: world.record_history().count("verify begun") > 1 or world.case_is(RESOLVED)())
    assert ("verify passed" in world.record_history()) is verified


def test_approval_is_requested_when_escalation_reaches_the_action_that_needs_it() -> None:
    asks = Rule("asks", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, approval=(RepairAction.REPLACE_NODE,))
    world = World(rules=(asks,))
    world.verifier.results[FIRST] = FAILED
    world.fault_and_react(code="xid.48")
    world.until(lambda: world.case().pending_approval is not None)
    assert (restarts(world), world.released_instances()) == ([("reboot_node", FIRST)], [])
    assert world.case().repair_action is RepairAction.REPLACE_NODE


def transitions(world: World) -> Iterator[int]:
    return (execution.transitions for execution in world.workflow.executions.values())


def test_no_attempt_at_any_repair_action_needs_thirty_transitions() -> None:
    world = faulty_world("xid.48")
    world.verifier.results[FIRST] = FAILED
    world.until(world.case_is(RESOLVED))
    assert len(world.workflow.executions) == 3
    assert max(transitions(world)) <= 20


CATALOG = load_catalog()
NIC = Component(ComponentType.NIC, name="rdma0")
NETWORK = sorted(code for code in CATALOG.rows if code.startswith("net."))
STATES = [code for code in NETWORK if code not in network_faults_ended_by_reboot()]


@pytest.fixture(autouse=True)
def packaged_catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setattr(scenario, "CATALOG", CATALOG)
    return CATALOG


@pytest.mark.parametrize("code", STATES)
def test_a_state_of_the_network_lasts_after_a_reboot_and_a_passed_verification(code: str) -> None:
    world = World(rules=default_policy().rules)
    world.fault(1, "xid.62", action=None)
    world.fault_and_react(1, code, source="link-state", component=NIC, action=None, minutes=50)
    assert code in {condition.code for condition in world.node().active()}


def test_the_data_names_every_network_event_and_no_state() -> None:
    ended = network_faults_ended_by_reboot()
    assert ended < set(NETWORK)
    assert {code for code in NETWORK if CATALOG.row(code).scope is Scope.DEVICE} == set(STATES)
    assert all("reboot_node" not in CATALOG.row(code).ends_on for code in STATES)


@pytest.mark.parametrize("code", ["net.link_absent", "net.efa_error", "net.loopback_missing"])
def test_a_network_fault_that_the_catalog_reboots_is_not_cleared_by_the_reboot(code: str) -> None:
    world = World(rules=default_policy().rules)
    world.fault_and_react(1, code, source="link-state", component=NIC, action=None, minutes=50)
    cleared = [body["data"]["reason"] for body in world.bodies() if "Cleared" in body["metadata"]["event_type"]]
    assert cleared == []
