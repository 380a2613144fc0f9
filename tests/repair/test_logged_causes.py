"""Logged causes: each decision and each swallowed error of a repair is one log line with its reason and ids."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, ProviderFailure, RepairAction
from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.fault_enums import Action
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Update
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.repair.attempt.step_runner import release_leaked_slots
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.isolate import IsolationResult, prepare_isolations
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.spares.reconcile import reconcile_spares
from tests.scenarios.incidents.builders import before_the_intent_of
from tests.scenarios.orchestrator.unreachable_orchestrator import DEAD, PROCEED, unreachable_world
from tests.scenarios.world import CLUSTER, GROUP, World, limits
from tests.sim.fakes import Call

Causes = Callable[[str], list[logging.LogRecord]]


@pytest.fixture
def causes(caplog: pytest.LogCaptureFixture) -> Causes:
    """Return a function that lists the log lines of one decision."""
    caplog.set_level(logging.DEBUG, "faultbridge")
    return lambda decision: [record for record in caplog.records if record.getMessage() == decision]


def fails(name: str, error: Exception, times: int = 1) -> Callable[[Call], None]:
    """Return a hook that raises an error at the first calls of a port."""
    left = [times]

    def hook(call: Call) -> None:
        if call.name == name and left[0]:
            left[0] -= 1
            raise error

    return hook


def with_fault(**options) -> World:
    """Return a cluster with a fault that no service has processed yet."""
    world = World(**options)
    world.fault()
    return world


def hold_slot(world: World, case: str) -> None:
    holder = {("holders", case): "2026-02-03T12:00:00.000Z"}
    world.table.write(Update(keys.cluster_control(CLUSTER), set=holder, add={"version": 1}))


def spare_world() -> World:
    """Return a cluster with one spare and instances from a launch template."""
    world = World()
    world.launch_from_template()
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"spares": 1, "spare_group": GROUP})
    return world


def test_each_state_change_of_a_breaker_is_logged(causes: Causes) -> None:
    world = World(nodes=4, breakers=(BreakerLimit(nodes=2, percent=20),))
    for node in (1, 2):
        world.fault(node)
    world.process_entries()
    for node in (1, 2):
        world.clear(node)
    world.process_entries(minutes=11)
    assert [line.after for line in causes("breaker_changed")] == ["open", "half_open", "closed"]
    assert causes("breaker_changed")[1].before == "open"
    assert {line.cluster for line in causes("breaker_changed")} == {CLUSTER}
    assert causes("breaker_changed")[0].reason.startswith("2 nodes fail at once; repairs wait until ")


def test_an_order_that_pauses_repairs_is_logged_with_its_operator(causes: Causes) -> None:
    World().controls.pause(CLUSTER, OperatorOrder("ada"))
    (line,) = causes("pause_changed")
    assert (line.after, line.operator, line.reason) == ("paused", "ada", "ordered by an operator")


def test_a_granted_admission_is_logged_with_its_repair_action(causes: Causes) -> None:
    world = with_fault()
    world.process_entries()
    (line,) = causes("admission_granted")
    assert (line.node, line.case_id, line.repair_action) == ("node-1", world.case().id, "replace_node")


def test_a_refused_admission_is_logged_once_with_what_the_case_waits_for(causes: Causes) -> None:
    world = World()
    world.pause_repairs(paused=True)
    world.fault_and_react(minutes=2)
    (line,) = causes("admission_refused")
    assert (line.case_id, line.waiting_for, line.reason) == (
        world.case().id,
        "pause",
        "repairs of this cluster are paused",
    )


def test_a_refused_approval_is_logged(causes: Causes) -> None:
    rule = Rule("asked", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    with_fault(rules=(rule,)).process_entries()
    assert [line.waiting_for for line in causes("admission_refused")] == ["approval"]


def test_an_admission_that_loses_a_race_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.isolate.isolate(world.key())
    world.seam.before = fails("table.transact", Conflict("the slots changed"))
    world.dispatch.admit_cases(CLUSTER)
    assert [line.reason for line in causes("admission_conflict")] == ["the slots changed"]


def test_each_admission_of_a_single_case_that_loses_a_race_is_logged_with_the_case(causes: Causes) -> None:
    world = with_fault()
    world.isolate.isolate(world.key())
    world.seam.before = fails("table.transact", Conflict("the slots changed"), times=2)
    world.dispatch.admit_cases(CLUSTER)
    assert [line.case_id for line in causes("admission_conflict") if hasattr(line, "case_id")] == [world.case().id]
    assert world.case().status is CaseStatus.IN_PROGRESS


def test_a_group_of_changes_that_is_committed_one_by_one_is_logged_with_its_nodes(causes: Causes) -> None:
    world = World(nodes=2)
    for node in (1, 2):
        world.fault(node)
    (isolate,) = prepare_isolations(world.isolate, CLUSTER, ["node-1", "node-2"]).values()
    world.seam.before = fails("table.transact", Conflict("a node changed"))
    isolate()
    (line,) = causes("commit_group_split")
    assert (line.reason, line.nodes) == ("Conflict: a node changed", [f"{CLUSTER}/node-1", f"{CLUSTER}/node-2"])


def test_a_node_that_the_isolation_budget_keeps_in_service_is_logged(causes: Causes) -> None:
    world = World(nodes=4, orchestrated=True)
    for node in (1, 2):
        world.fault(node, "host.silent", component=NODE_COMPONENT)
    assert world.isolate.isolate(world.key(1)) is IsolationResult.DONE
    assert world.isolate.isolate(world.key(2)) is IsolationResult.HELD
    reason = f"the isolation budget of cluster {CLUSTER} is used up: 1 of 1"
    assert [(line.node, line.reason) for line in causes("isolation_held")] == [("node-2", reason)]


def test_a_quarantine_without_a_confirmed_isolation_is_logged_and_later_its_confirmation(causes: Causes) -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.pause_repairs(paused=True)
    world.until(lambda: world.status() is NodeStatus.QUARANTINED, 15)
    reason = "the orchestrator is out of reach and the instance is proven dead"
    assert [line.reason for line in causes("isolation_skipped")] == [reason]
    assert causes("isolation_confirmed") == []
    world.orchestrator.unreachable_until = None
    world.until(lambda: world.node().isolation is Isolation.CONFIRMED, 10)
    assert [line.node for line in causes("isolation_confirmed")] == ["node-1"]


def test_a_failed_start_of_an_execution_is_logged_and_later_its_recovery(causes: Causes) -> None:
    world = with_fault()
    world.seam.before = fails("workflow.start", Transient("throttled"))
    world.process_entries()
    assert [line.reason for line in causes("execution_start_failed")] == ["throttled"]
    world.advance_minutes(3)
    assert [line.execution for line in causes("execution_started_late")] == [f"{world.case().id}-1"]


def test_an_isolation_is_logged_when_requested_retried_and_confirmed(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.process_entries(minutes=2)
    assert [line.reason for line in causes("isolation_requested")] == ["xid.79"]
    assert [(line.failure, line.node) for line in causes("isolation_retried")] == [("TIMEOUT", "node-1")]
    assert [line.reason for line in causes("isolation_confirmed")] == ["isolation confirmed"]


def test_a_withdrawn_isolation_is_logged(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.process_entries()
    world.clock.advance(5)
    world.clear()
    world.advance_minutes(2)
    assert [line.node for line in causes("isolation_withdrawn")] == ["node-1"]


def test_an_unreachable_orchestrator_is_logged_at_admission(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.seam.before = fails("orchestrator.cordon", Transient("unreachable"), times=99)
    world.advance_minutes()
    assert {line.reason for line in causes("isolation_unavailable")} == {"unreachable"}


def test_a_retried_step_is_logged_with_its_error_and_ids(causes: Causes) -> None:
    world = with_fault()
    world.seam.before = fails("provider.candidates", Transient("unreachable"))
    world.process_entries()
    (line,) = causes("step_retried")
    assert (line.reason, line.step, line.case_id, line.attempt) == (
        "unreachable",
        "await_successor",
        world.case().id,
        1,
    )


def test_a_failed_step_is_logged_with_the_escalation_that_follows(causes: Causes) -> None:
    world = with_fault()
    world.seam.before = fails("provider.candidates", Misconfigured("no such group"), times=99)
    world.process_entries()
    assert "no such group" in causes("step_failed")[0].reason
    assert "no such group" in causes("attempt_failed")[0].reason
    assert causes("attempt_escalated")[0].case_id == world.case().id


def test_a_requeued_attempt_is_logged_with_what_the_case_waits_for(causes: Causes) -> None:
    world = with_fault()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False, reason="the reservation is full")
    world.process_entries()
    assert [(line.reason, line.waiting_for) for line in causes("attempt_requeued")] == [
        ("CAPACITY: the reservation is full", "capacity")
    ]


def test_a_release_without_an_answer_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.seam.before = fails("provider.replace", Transient("connection reset"))
    world.process_entries()
    assert [line.reason for line in causes("release_unanswered")] == ["connection reset"]


def test_a_step_that_times_out_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.fleet.launch_delay = timedelta(days=7)
    world.until_case(CaseStatus.ESCALATED)
    assert [line.step for line in causes("step_timed_out")] == ["await_successor"]


def test_a_verification_without_a_result_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.verifier.result = Verification(Verdict.UNKNOWN, ("the command is lost",))
    world.process_entries()
    world.until(lambda: bool(causes("verification_restarted")))
    assert causes("verification_restarted")[0].reason == "the command is lost"


def test_a_superseded_call_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.process_entries()
    case = world.case()
    payload = {"v": 1, "cluster": CLUSTER, "node": "node-1", "case": case.id, "attempt": case.attempts + 1}
    assert world.step_runner.run_step(payload | {"step": "drain"})["outcome"] == "superseded"
    assert [line.attempt for line in causes("attempt_superseded")] == [case.attempts + 1]


def test_an_admission_is_logged_with_its_reason(causes: Causes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.claim_and_react(minutes=1)
    reason = "no proven sender reports the fault; diagnostics have to confirm it"
    assert [line.reason for line in causes("admission_granted")] == [reason]


def test_a_lost_execution_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.fleet.launch_delay = timedelta(minutes=30)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(lambda: world.case().attempts == 2)
    assert [line.execution for line in causes("execution_lost")] == [f"{world.case().id}-1"]


def test_an_attempt_whose_execution_is_lost_before_the_intent_is_logged_as_requeued(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=12)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(CaseStatus.QUEUED))
    assert [line.reason for line in causes("attempt_requeued")] == ["the execution was lost before its intent"]


def test_a_released_slot_and_a_lost_race_for_it_are_logged(causes: Causes) -> None:
    world = World()
    hold_slot(world, "c-leaked")
    world.seam.before = fails("table.write", Conflict("the slots changed"))
    assert release_leaked_slots(world.table, CLUSTER) == ()
    assert [line.reason for line in causes("leaked_slots_kept")] == ["the slots changed"]
    assert release_leaked_slots(world.table, CLUSTER) == ("c-leaked",)
    assert [line.case_id for line in causes("leaked_slot_released")] == ["c-leaked"]


def test_a_missing_log_bundle_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.seam.before = fails("collector.collect", Transient("the agent does not answer"), times=99)
    world.process_entries()
    assert [line.reason for line in causes("log_bundle_skipped")] == ["the agent does not answer"]


def test_a_missing_log_bundle_is_logged_once_although_the_intent_of_the_attempt_is_withdrawn(causes: Causes) -> None:
    world = with_fault()
    world.collector.failure_reason = "the agent does not answer"
    before_the_intent_of(world, lambda: world.pause_repairs(paused=True))
    world.process_entries()
    world.pause_repairs(paused=False)
    world.until(lambda: "intent committed" in world.record_history())
    assert world.case().attempts == 1
    assert len(causes("log_bundle_skipped")) == 1


def test_an_instance_that_another_controller_terminated_is_logged(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=5)
    world.process_entries()
    old = "i-00000000000000001"
    world.fleet.instances[old] = replace(world.fleet.instances[old], alive=False)
    world.advance_minutes(8)
    assert [line.instance_id for line in causes("instance_gone")] == [old]


def test_a_failed_launch_of_a_successor_is_logged(causes: Causes) -> None:
    world = World()
    world.launch_from_template()
    world.launcher.fail_next(ProviderFailure.CAPACITY)
    world.fault_and_react()
    assert [line.failure for line in causes("successor_launch_failed")] == ["CAPACITY"]


def test_a_failed_launch_for_a_lost_instance_is_logged(causes: Causes) -> None:
    world = World()
    world.launch_from_template()
    world.fleet.terminate("i-00000000000000001")
    world.launcher.fail_next(ProviderFailure.CAPACITY)
    world.fault_and_react()
    assert [line.failure for line in causes("successor_launch_failed")] == ["CAPACITY"]


def test_a_failed_launch_of_a_spare_is_logged(causes: Causes) -> None:
    world = spare_world()
    world.launcher.fail_next(ProviderFailure.CAPACITY)
    world.advance_minutes(3)
    assert [line.spare for line in causes("spare_launch_failed")] == [1]


def test_a_discarded_spare_is_logged(causes: Causes) -> None:
    world = spare_world()
    world.verifier.result = Verification(Verdict.FAILED, ("pcie: fail",))
    world.until(lambda: bool(causes("spare_discarded")), 60)
    assert causes("spare_discarded")[0].reason == "pcie: fail"


def test_a_lost_write_of_a_spare_is_logged(causes: Causes) -> None:
    world = spare_world()
    world.seam.before = fails("table.write", Conflict("another writer was first"), times=3)
    reconcile_spares(world.sweep.cluster_steps.tools, CLUSTER)
    assert [line.reason for line in causes("spare_write_lost")] == ["another writer was first"]


def test_a_release_without_capacity_evidence_is_logged(causes: Causes) -> None:
    with_fault().process_entries()
    assert [line.instance_id for line in causes("released_without_capacity_evidence")] == ["i-00000000000000001"]


def test_a_request_for_approval_is_logged(causes: Causes) -> None:
    rule = Rule("strict", Match(codes=("xid.79",)), release_without_capacity=False)
    with_fault(rules=(rule,)).process_entries()
    reasons = [line.reason for line in causes("approval_requested")]
    assert reasons == ["no evidence of capacity for a replacement instance"]


def test_a_restart_without_an_answer_is_logged(causes: Causes) -> None:
    rule = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE)
    world = with_fault(rules=(rule,))
    world.seam.before = fails("restarter.restart", Transient("throttled"))
    world.process_entries()
    assert [line.reason for line in causes("restart_unanswered")] == ["throttled"]


def test_an_orchestrator_that_is_lost_during_the_drain_is_logged(causes: Causes) -> None:
    world = with_fault(orchestrated=True)
    world.isolate.isolate(world.key())
    world.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 5)
    world.process_entries()
    assert [line.step for line in causes("orchestrator_unavailable")] == ["drain"]


def test_a_candidate_that_backs_another_node_is_logged(causes: Causes) -> None:
    world = with_fault()
    world.fleet.spare = 0
    world.process_entries()
    taken = world.fleet.launch(GROUP, at=world.clock.now() + timedelta(seconds=5))
    world.clock.advance(10)
    registration = Registration(world.table, world.append, world.clock)
    registration.add_node(CLUSTER, NewNode("node-7", taken, GROUP))
    world.advance_minutes(10)
    assert {line.instance_id for line in causes("successor_skipped")} == {taken}


def test_a_case_without_a_permitted_repair_action_is_logged_as_escalated(causes: Causes) -> None:
    world = with_fault(rules=(Rule("reset", action=Action.RESET_GPU),))
    world.pause_repairs(paused=True)
    world.process_entries()
    world.policy = Policy("stricter", (Rule("reset", action=Action.RESET_GPU, repair_actions=()),))
    world.pause_repairs(paused=False)
    world.advance_minutes()
    assert "permits neither reset_gpu nor a stronger repair action" in causes("case_escalated")[0].reason


def test_an_ordinary_repair_logs_no_warning(causes: Causes, caplog: pytest.LogCaptureFixture) -> None:
    world = with_fault(limits=limits(concurrent=1))
    world.provider.known_capacity = Capacity(CapacityEvidence.LAUNCH_FIRST)
    world.until_case(CaseStatus.RESOLVED)
    assert causes("admission_granted")
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
