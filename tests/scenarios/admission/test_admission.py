"""Admission of repairs: slots, limits, pause, order, isolation, and the reason of a waiting case."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import (
    CaseStatus,
    Isolation,
    NodeStatus,
    ProviderFailure,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from tests.scenarios.world import World, limits

RESOLVED, IN_PROGRESS, QUEUED = CaseStatus.RESOLVED, CaseStatus.IN_PROGRESS, CaseStatus.QUEUED


def in_progress(world: World, nodes: int) -> int:
    return sum(world.case(node).status is IN_PROGRESS for node in range(1, nodes + 1))


def test_all_faulty_nodes_are_isolated_at_once_while_two_at_a_time_are_repaired():
    world = World(nodes=5, limits=limits(concurrent=2))
    for node in range(1, 6):
        world.fault(node)
    world.process_entries()
    assert in_progress(world, 5) == 2
    assert not [node for node in range(1, 6) if world.node(node).status.in_service]
    most = 0
    for _ in range(120):
        world.advance_minutes()
        running = in_progress(world, 5)
        most = max(most, running)
        assert len(world.control().holders) == running
    assert most == 2
    assert {world.status(node) for node in range(1, 6)} == {NodeStatus.HEALTHY}
    assert len(world.released_instances()) == len(set(world.released_instances())) == 5


def test_a_waiting_case_records_each_reason_once():
    world = World(nodes=3, limits=limits(concurrent=1))
    for node in (1, 2, 3):
        world.fault(node)
    world.process_entries(minutes=3)
    waiting = [node for node in (1, 2, 3) if world.case(node).status is QUEUED]
    assert [world.case(node).waiting_for for node in waiting] == [WaitingFor.BUDGET] * 2
    world.pause_repairs(paused=True)
    world.advance_minutes(3)
    assert [world.case(node).waiting_for for node in waiting] == [WaitingFor.PAUSE] * 2
    for node in waiting:
        refusals = [body["data"]["text"] for body in world.bodies(node) if body["data"].get("kind") == "refused"]
        assert refusals == [
            "the policy's limit of concurrent repairs is reached",
            "repairs of this cluster are paused",
        ]


def test_a_case_that_requires_approval_waits_for_admission_and_approval_and_never_for_the_budget():
    world = World(nodes=1, rules=(Rule("ask", Match(), approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react(1)
    recorded = [body["data"].get("waiting_for") for body in world.bodies(1)]
    refused = [(body["data"].get("facts") or {}).get("waiting_for") for body in world.bodies(1)]
    assert {one for one in (*recorded, *refused) if one} == {"admission"}
    assert world.case(1).waiting_for is WaitingFor.APPROVAL


def test_the_hourly_limit_applies_although_slots_are_free():
    world = World(nodes=3, limits=limits(concurrent=3, per_hour=1))
    for node in (1, 2, 3):
        world.fault(node)
    world.process_entries(minutes=59)
    assert len(world.released_instances()) == 1
    world.advance_minutes(2)
    assert len(world.released_instances()) == 2


def test_repairs_start_by_severity_then_by_age():
    rule = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR)
    world = World(nodes=3, limits=limits(concurrent=1), rules=(rule,))
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    world.pause_repairs(paused=True)
    world.fault(1, code="xid.48")
    world.clock.advance(1)
    world.fault(2)
    world.clock.advance(1)
    world.fault_and_react(3)
    world.pause_repairs(paused=False)
    for node in (1, 2, 3):
        world.until(world.case_is(RESOLVED, node))
    assert world.released_instances() == [f"i-{node:017x}" for node in (2, 3, 1)]


def test_a_pause_blocks_new_repairs_and_stops_repairs_before_their_intent():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
    world.fault_and_react()
    world.pause_repairs(paused=True)
    world.advance_minutes(20)
    assert (world.status(), world.released_instances()) == (NodeStatus.QUARANTINED, [])
    assert (world.case().status, world.case().waiting_for) == (QUEUED, WaitingFor.PAUSE)
    assert world.control().holders == {}
    world.pause_repairs(paused=False)
    world.until(world.case_is(RESOLVED))


def test_a_pause_after_the_intent_does_not_stop_the_repair():
    world = World()
    world.fault_and_react()
    assert len(world.released_instances()) == 1
    world.pause_repairs(paused=True)
    world.until(world.case_is(RESOLVED))


def test_a_node_that_cannot_be_isolated_is_not_repaired_and_blocks_no_other_repair():
    world = World(nodes=2, limits=limits(concurrent=1), orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.fault_and_react(1)
    assert (world.status(1), world.node(1).isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)
    assert world.case(1).status is QUEUED
    assert world.record_history(1).count("note isolation") == 1
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.fault_and_react(2, minutes=1)
    assert world.orchestrator.cordoned == {"node-1", "node-2"}
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))


def test_a_node_that_recovers_before_its_isolation_is_uncordoned():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT, ProviderFailure.TIMEOUT)
    world.fault_and_react()
    assert world.node().isolation is Isolation.REQUESTED
    world.clock.advance(5)
    world.clear()
    world.advance_minutes(2)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert world.case().resolution is Resolution.RECOVERED
    assert world.released_instances() == []


def test_a_node_that_recovers_in_quarantine_is_verified_and_not_replaced():
    world = World()
    world.pause_repairs(paused=True)
    world.fault_and_react()
    assert world.status() is NodeStatus.QUARANTINED
    world.clock.advance(5)
    world.clear()
    world.pause_repairs(paused=False)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), world.released_instances()) == (NodeStatus.HEALTHY, [])
    assert world.case().resolution is Resolution.RECOVERED
    assert world.node().incarnation.instance == 1


def test_a_diagnosis_uses_no_slot_and_releases_no_instance():
    rule = Rule("look", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS)
    world = World(nodes=2, limits=limits(concurrent=1), rules=(rule,))
    world.fault(1)
    world.fault_and_react(2, code="xid.48")
    assert in_progress(world, 2) == 2
    assert list(world.control().holders) == [world.case(1).id]
    world.until(world.case_is(RESOLVED, 2))
    assert "i-00000000000000002" not in world.released_instances()


def test_a_failed_diagnosis_escalates_to_the_next_permitted_repair_action():
    repair_actions = (RepairAction.VERIFY, RepairAction.REPLACE_NODE)
    rule = Rule(
        "look",
        Match(codes=("xid.48",)),
        action=Action.RUN_DIAGNOSTICS,
        repair_actions=repair_actions,
        release_without_capacity=True,
    )
    world = World(rules=(rule,))
    world.verifier.results["i-00000000000000001"] = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_until_resolved(code="xid.48")
    assert world.case().repair_action is RepairAction.REPLACE_NODE
    assert (world.case().attempts, world.released_instances()) == (2, ["i-00000000000000001"])


def test_a_repair_action_that_the_policy_no_longer_permits_escalates_with_a_reason():
    world = World(limits=limits(concurrent=0), rules=(Rule("reset", action=Action.RESET_GPU),))
    world.fault_and_react()
    world.policy = Policy(
        "stricter", (Rule("reset", action=Action.RESET_GPU, repair_actions=(RepairAction.REPLACE_NODE,)),)
    )
    world.advance_minutes()
    moves = [body["data"] for body in world.bodies() if body["data"].get("to") == "in_progress"]
    assert (
        moves[0]["reason"]
        == "admitted: rule reset permits no reset_gpu; replace_node is the next permitted repair action"
    )
    assert moves[0]["repair_action"] == "replace_node"


def test_a_case_is_escalated_after_every_repair_action_failed():
    rule = Rule(
        "mild",
        Match(codes=("xid.48",)),
        action=Action.RESET_GPU,
        repair_actions=(RepairAction.RESET_GPU, RepairAction.REBOOT_NODE),
    )
    world = World(rules=(rule,))
    world.verifier.results["i-00000000000000001"] = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_until(CaseStatus.ESCALATED, code="xid.48")
    assert (world.case().repair_action, world.released_instances()) == (RepairAction.REBOOT_NODE, [])
    assert world.case().reason == "VERIFY_FAILED: memory: fail"


def test_a_node_left_in_service_by_policy_is_isolated_only_when_its_repair_starts():
    rule = Rule("gentle", Match(codes=("xid.48",)), isolate=False, release_without_capacity=True)
    world = World(nodes=2, limits=limits(concurrent=1), rules=(rule,))
    world.fault_and_react(1)
    world.fault_and_react(2, code="xid.48")
    assert world.status(2) is NodeStatus.DEGRADED
    world.until(world.case_is(RESOLVED, 1))
    world.advance_minutes(2)
    assert world.status(2) is not NodeStatus.DEGRADED
    world.until(world.case_is(RESOLVED, 2))
