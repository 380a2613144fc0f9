"""A claim alone evicts no running work: the node is verified only while it is idle."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.enums import (
    CaseStatus,
    Isolation,
    NodeStatus,
    ProviderFailure,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.isolate import WITHDRAWN
from tests.builders import DEFAULT_RULE
from tests.races import run_before_write
from tests.scenarios.world import World, limits
from tests.sim.fakes import Call, raise_once

GPU_IN_USE = Verification(Verdict.FAILED, ("dcgm: GPU is in use by another process",))
NODE, INSTANCE = "node-1", "i-00000000000000001"


def busy_world(*rules: Rule, hours: float = 40, claim_ttl: timedelta = timedelta(days=7)) -> World:
    """A world whose node runs a job; its diagnostics fail, because the GPUs are in use.

    By default, a claim does not end before the job.
    """
    world = World(orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    if rules:
        world.policy = Policy("test-policy", (*rules, DEFAULT_RULE))
    world.policy = replace(world.policy, limits=replace(world.policy.limits, claim_ttl=claim_ttl))
    world.orchestrator.busy_until[NODE] = world.clock.now() + timedelta(hours=hours)
    world.verifier.results[INSTANCE] = GPU_IN_USE
    return world


def cordoned_and_cleared() -> World:
    """A world whose node was cordoned for a claim that its sender has ended since: its cordon is not needed."""
    world = busy_world()
    world.claim_and_react(minutes=1)
    assert world.node().isolation is Isolation.CONFIRMED
    world.clock.advance(60)
    world.clear()
    return world


def drains(world: World) -> int:
    return len(world.seam.named("orchestrator.drain"))


def test_a_claim_neither_drains_nor_verifies_nor_releases_a_node_while_its_job_runs() -> None:
    world = busy_world()
    world.claim_and_react(minutes=180)

    assert (drains(world), world.released_instances()) == (0, [])
    assert not {"drain forced", "verify begun"} & set(world.record_history())
    assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.IDLE)
    assert world.case().counted_attempts == 0


def test_an_uncordon_without_an_answer_is_recorded_as_unconfirmed_and_repeated() -> None:
    world = cordoned_and_cleared()
    world.seam.after = raise_once(("orchestrator.uncordon", Transient("no answer")))
    with pytest.raises(Transient, match="no answer"):
        world.isolate.isolate(world.key())
    assert world.node().isolation is Isolation.REQUESTED
    world.advance_minutes(2)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_an_operator_is_paged_if_the_cordon_of_a_claimed_node_cannot_be_removed() -> None:
    world = cordoned_and_cleared()
    world.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 20)
    world.advance_minutes(10)
    assert world.record_history().count("note isolation overdue") == 1


def test_a_cordon_that_two_calls_remove_at_once_is_recorded_as_withdrawn_once() -> None:
    world = cordoned_and_cleared()

    def other_call() -> None:
        world.clock.advance(1)
        world.isolate.isolate(world.key())
        assert world.node().isolation is Isolation.NONE

    run_before_write(world.seam, lambda _: True, other_call)
    world.isolate.isolate(world.key())
    assert repr(world.bodies()).count(WITHDRAWN) == 1


def test_a_node_that_fails_just_before_its_uncordon_stays_cordoned() -> None:
    world = cordoned_and_cleared()
    run_before_write(world.seam, lambda _: True, lambda: (world.clock.advance(1), world.fault(code="xid.79")))
    world.isolate.isolate(world.key())
    assert world.seam.named("orchestrator.uncordon") == []
    assert world.orchestrator.cordoned == {NODE}


def test_a_node_that_fails_during_its_uncordon_is_cordoned_again() -> None:
    world = cordoned_and_cleared()

    def fails(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.after = lambda _: None
            world.clock.advance(1)
            world.fault(code="xid.79")

    world.seam.after = fails
    world.isolate.isolate(world.key())
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.CONFIRMED)
    assert world.orchestrator.cordoned == {NODE}


def test_a_claim_that_nothing_proved_ends_in_an_hour_and_its_cordon_with_it_while_the_job_runs() -> None:
    world = busy_world(claim_ttl=default_policy().limits.claim_ttl)
    world.claim_and_react(minutes=59)
    assert world.node().isolation is Isolation.CONFIRMED
    world.advance_minutes(3)

    assert (world.case().status, world.case().resolution) == (CaseStatus.RESOLVED, Resolution.RECOVERED)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert len(world.seam.named("orchestrator.uncordon")) == 1
    assert (drains(world), "verify begun" in world.record_history()) == (0, False)


def test_a_claimed_node_is_verified_once_its_job_has_ended() -> None:
    world = busy_world(hours=1)
    del world.verifier.results[INSTANCE]
    world.claim_and_react()
    world.until(world.case_is(CaseStatus.RESOLVED))

    assert drains(world) == 0
    assert world.record_history().index("drain drained") < world.record_history().index("verify begun")
    assert world.status() is NodeStatus.HEALTHY


def test_a_claim_waits_while_the_orchestrator_does_not_answer_whether_work_runs() -> None:
    world = busy_world(hours=0)

    def give_no_answer(call: Call) -> None:
        if call.name == "orchestrator.idle":
            raise Transient("no answer")

    world.seam.before = give_no_answer
    world.claim_and_react(minutes=100)

    assert "verify begun" not in world.record_history()
    assert (world.case().waiting_for, world.case().counted_attempts) == (WaitingFor.IDLE, 0)
    world.seam.before = lambda _: None
    world.until(lambda: "verify begun" in world.record_history())


def test_a_claim_is_escalated_if_the_orchestrator_refuses_to_say_whether_work_runs() -> None:
    world = busy_world(hours=0)

    def refuse_in_the_step(call: Call) -> None:
        if call.name == "orchestrator.idle" and world.status() is NodeStatus.DRAINING:
            world.orchestrator.fail_next(ProviderFailure.PERMISSION_DENIED)

    world.seam.before = refuse_in_the_step
    world.claim_and_react()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert world.case().reason.startswith("PERMISSION_DENIED")


def test_the_work_of_a_claimed_node_is_drained_once_its_fault_is_proven() -> None:
    world = busy_world()
    world.claim_and_react(minutes=30)
    assert drains(world) == 0
    world.fault_and_react()
    world.until(lambda: bool(world.released_instances()))
    assert "drain forced" in world.record_history()


def test_the_work_of_a_node_is_drained_once_an_operator_approves_the_repair_of_a_claim() -> None:
    asked = Rule("ask", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)
    world = busy_world(asked)
    world.claim_and_react()
    world.until(lambda: world.case().pending_approval is not None)
    world.orders.approve(world.case().id, OperatorOrder("arn:operator", "seen on the rack"))
    world.process_entries()
    world.until(lambda: drains(world) > 0, minutes=10)


def test_a_verification_is_never_forced_at_the_deadline_of_its_drain_although_the_node_is_lost() -> None:
    world = busy_world(hours=1)
    world.fault_and_react(action=Action.RUN_DIAGNOSTICS)
    world.until(lambda: world.case().attempts == 1 and world.case().status is CaseStatus.QUEUED)
    assert "drain forced" not in world.record_history()
    assert "verify begun" not in world.record_history()


def test_a_drain_is_not_forced_because_of_a_fatal_claim_beside_a_proven_error() -> None:
    world = busy_world()
    world.claim()
    world.fault(code="net.link_absent", component=NODE_COMPONENT, severity=Severity.ERROR, action=Action.REPLACE_NODE)
    world.process_entries()
    world.advance_minutes(180)

    assert (world.case().severity, world.case().waiting_for) == (Severity.FATAL, WaitingFor.IDLE)
    assert drains(world) == 0
    assert "drain forced" not in world.record_history()
    assert world.released_instances() == []


def without_orchestrator(*, occupied: bool | None = True) -> World:
    """A world without an orchestrator, whose verifier finds a process on the GPUs, or (None) cannot list them."""
    world = World(catalog=load_catalog(), limits=limits(verify_deadline=timedelta(minutes=30)))
    world.verifier.results[INSTANCE] = GPU_IN_USE
    world.verifier.occupied = lambda _: occupied
    return world


@pytest.mark.parametrize("occupied", [True, None])
def test_no_diagnostics_for_a_claim_run_beside_a_process_or_where_the_processes_are_not_known(
    occupied: bool | None,
) -> None:
    world = without_orchestrator(occupied=occupied)
    world.claim_and_react(minutes=180)

    assert (world.released_instances(), world.restarter.restarted) == ([], [])
    assert not {"verify failed", "verify passed"} & set(world.record_history())
    assert (world.case().waiting_for, world.case().counted_attempts) == (WaitingFor.IDLE, 0)
    assert world.case().reason == "no diagnostics beside running work: process 7 uses a GPU: train"
    assert len(world.seam.named("verifier.start")) <= 12


def test_a_claimed_node_is_verified_once_no_process_uses_its_gpus() -> None:
    world = without_orchestrator()
    world.claim_and_react(minutes=60)
    world.verifier.occupied = lambda _: False
    del world.verifier.results[INSTANCE]
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.status() is NodeStatus.HEALTHY


def test_the_diagnostics_of_a_lost_node_wait_for_processes_until_the_deadline() -> None:
    world = without_orchestrator()
    world.fault_and_react(action=Action.RUN_DIAGNOSTICS)
    world.until(world.case_is(CaseStatus.ESCALATED), minutes=60)

    assert "verify failed" not in world.record_history()
    assert world.record_history().count("verify occupied") <= 10
    assert "process 7 uses a GPU: train" in world.case().reason
    assert world.released_instances() == []


def test_the_diagnostics_of_a_proven_fault_start_again_once_the_processes_have_ended() -> None:
    world = without_orchestrator()
    world.fault_and_react(code="gpu.unknown", severity=Severity.FATAL, action=Action.RUN_DIAGNOSTICS, minutes=5)
    world.verifier.occupied = lambda _: False
    world.until(lambda: "verify failed" in world.record_history(), minutes=60)


def test_the_diagnostics_of_a_proven_fault_run_where_the_processes_are_not_known() -> None:
    world = without_orchestrator(occupied=None)
    world.fault_and_react(code="gpu.unknown", severity=Severity.FATAL, action=Action.RUN_DIAGNOSTICS)
    world.until(lambda: "verify failed" in world.record_history(), minutes=60)


def test_a_busy_gpu_does_not_confirm_a_claim_beside_a_missing_heartbeat() -> None:
    world = without_orchestrator()
    world.claim()
    world.fault(code="host.silent", component=NODE_COMPONENT, source="heartbeat", action=Action.RUN_DIAGNOSTICS)
    world.process_entries()
    world.advance_minutes(90)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.IDLE, [])
