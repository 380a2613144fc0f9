"""The step runner: malformed, late, repeated and out-of-order calls, and errors of dependencies."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_context import StepRequest
from faultbridge.repair.registry.registration import Registration
from tests.races import run_before_write
from tests.scenarios.world import World
from tests.sim.fakes import Call


def started(**others) -> World:
    world = World(**others)
    world.fault_and_react()
    return world


def outage_of(name: str, error: Exception, *, times: int):
    left = [times]

    def hook(call: Call) -> None:
        if call.name == name and left[0] > 0:
            left[0] -= 1
            raise error

    return hook


def faulty_during_outage(name: str, error: Exception, *, times: int, **others) -> World:
    """Return a world with a fault whose repair began while a call of a dependency fails."""
    world = World(**others)
    world.fault()
    world.seam.before = outage_of(name, error, times=times)
    world.process_entries()
    return world


def payload(world: World, step: str = "drain", **others) -> dict:
    case = world.case()
    given = {"v": 1, "cluster": "train-a", "node": "node-1", "case": case.id, "attempt": case.attempts}
    return given | {"step": step} | others


@pytest.mark.parametrize(
    "broken",
    [{"v": 2}, {"v": None}, {"attempt": "many"}, {"step": "dance"}],
)
def test_a_malformed_payload_is_rejected(broken):
    world = started()
    with pytest.raises(Rejected):
        world.step_runner.run_step(payload(world) | broken)


def test_a_payload_without_a_case_is_rejected():
    with pytest.raises(Rejected, match="case"):
        StepRequest.read({"v": 1, "cluster": "c", "node": "n", "step": "drain", "attempt": 1})


@pytest.mark.parametrize(
    ("caught", "text"),
    [({}, ""), ({"error": "it broke"}, "it broke"), ({"error": {"Error": "Timeout", "Cause": "x"}}, "Timeout: x")],
)
def test_the_error_of_a_payload_is_what_the_state_machine_caught(caught, text):
    given = {"v": 1, "cluster": "c", "node": "n", "case": "c-1", "attempt": 1, "step": "fail"}
    assert StepRequest.read(given | caught).error == text


def test_a_failure_without_an_error_is_recorded_as_one():
    world = started()
    world.step_runner.run_step(payload(world, "fail"))
    (failed,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "error"]
    assert failed["reason"] == "the step failed without an error message"


def test_a_case_never_closes_before_its_node_is_verified_and_returned():
    world = started()
    assert world.status() is NodeStatus.PROVISIONING
    assert world.step_runner.run_step(payload(world, "close"))["outcome"] == "failed"
    assert world.status() is NodeStatus.FAILED


def test_a_node_never_returns_to_service_before_it_is_verified():
    world = started()
    assert world.step_runner.run_step(payload(world, "return_to_service"))["outcome"] == "failed"
    assert not world.node().status.in_service


def returning() -> World:
    """Return a verified node whose orchestrator does not answer the uncordon call."""
    world = faulty_during_outage("orchestrator.uncordon", Transient("unreachable"), times=999, orchestrated=True)
    world.until(lambda: "verify passed" in world.record_history())
    world.until(lambda: bool(world.seam.named("orchestrator.uncordon")))
    world.seam.before = lambda _: None
    world.seam.calls.clear()
    return world


@pytest.mark.parametrize("isolation", [Isolation.CONFIRMED, Isolation.REQUESTED])
def test_a_late_failure_of_an_earlier_attempt_does_not_cordon_a_returning_node(isolation):
    world = returning()
    world.append(world.key(), lambda state, _: Transition(replace(state, isolation=isolation)), actor=Actor.STEP)
    earlier = payload(world, "fail", attempt=world.case().attempts - 1)
    assert world.step_runner.run_step(earlier)["outcome"] == "superseded"
    assert world.seam.named("orchestrator.cordon") == []


def test_a_failed_return_is_recorded_only_after_the_node_is_cordoned_again():
    world = returning()
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    with pytest.raises(Transient, match="may be uncordoned"):
        world.step_runner.run_step(payload(world, "fail"))
    assert world.case().status is CaseStatus.IN_PROGRESS
    assert world.step_runner.run_step(payload(world, "fail"))["outcome"] == "failed"
    assert world.orchestrator.cordoned == {"node-1"}


def test_a_slow_call_that_fails_after_another_one_returned_the_node_leaves_it_in_service():
    world = returning()
    call = payload(world, "return_to_service")

    def faster_call(seen: Call) -> None:
        if seen.name == "orchestrator.uncordon":
            world.seam.before = lambda _: None
            world.step_runner.run_step(call)
            raise Misconfigured("no permission to uncordon")

    world.seam.before = faster_call
    assert world.step_runner.run_step(call)["outcome"] == "done"
    assert world.orchestrator.cordoned == set()


def next_attempt(state: NodeState, _: datetime) -> Transition:
    """Continue with another attempt, as a recovery does, which cordons the node again."""
    case = replace(state.case, attempts=2, attempt=replace(state.case.attempt, number=2))
    return Transition(replace(state, case=case, isolation=Isolation.REQUESTED))


def test_a_call_whose_attempt_is_superseded_before_its_write_writes_nothing():
    world = started()
    call = payload(world, "await_successor")
    world.clock.advance(timedelta(seconds=1))
    run_before_write(world.seam, lambda _: True, lambda: world.append(world.key(), next_attempt, actor=Actor.STEP))
    before = world.case()
    assert world.step_runner.run_step(call)["outcome"] == "superseded"
    assert world.case() == replace(before, attempts=2, attempt=replace(before.attempt, number=2))


def test_a_slow_call_that_fails_does_not_cordon_a_node_that_the_next_attempt_returns():
    world = returning()
    call = payload(world, "return_to_service")

    def overtaken(seen: Call) -> None:
        if seen.name == "orchestrator.uncordon":
            world.append(world.key(), next_attempt, actor=Actor.STEP)
            world.orchestrator.cordoned.clear()
            raise Misconfigured("no permission to uncordon")

    world.seam.before = overtaken
    assert world.step_runner.run_step(call)["outcome"] == "superseded"
    assert world.orchestrator.cordoned == set()


def test_a_step_waits_until_an_outage_of_a_dependency_ends():
    world = faulty_during_outage("provider.candidates", Transient("unreachable"), times=5)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.case().attempts == 1


def test_a_provider_outage_before_the_intent_costs_an_attempt_and_is_not_ambiguous():
    world = faulty_during_outage("provider.capacity", Transient("unreachable"), times=8)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.case().attempts == 2
    assert not [line for line in world.record_history() if "AMBIGUOUS" in line or "inconclusive" in line]
    assert world.record_history().count("intent committed") == 1


def test_a_configuration_error_is_escalated_and_recorded_with_the_step_that_failed():
    world = faulty_during_outage("provider.candidates", Misconfigured("no such group"), times=99)
    assert world.case().status is CaseStatus.ESCALATED
    assert world.case().reason == "await_successor failed: Misconfigured: no such group"
    (failed,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "error"]
    assert failed["step"] == "await_successor"


def test_a_refused_verification_is_escalated_with_its_reason_and_launches_no_further_instance():
    world = faulty_during_outage("verifier.start", Misconfigured("no thresholds for its type"), times=999)
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert "no thresholds for its type" in world.case().reason
    assert len(world.released_instances()) == 1
    assert world.status() is not NodeStatus.HEALTHY


def test_a_bug_in_a_step_before_the_intent_is_retried_until_the_attempts_are_used_up():
    world = faulty_during_outage("orchestrator.drain", RuntimeError("a bug"), times=999, orchestrated=True)
    assert (world.case().status, world.status()) == (CaseStatus.QUEUED, NodeStatus.QUARANTINED)
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert world.case().attempts == 3
    assert "RuntimeError" in world.case().reason
    assert world.released_instances() == []


def test_a_bug_in_a_step_after_the_intent_is_escalated():
    world = faulty_during_outage("provider.replace", RuntimeError("a bug"), times=999)
    assert world.case().status is CaseStatus.ESCALATED
    assert world.record_history().count("intent committed") == 1
    assert world.control().holders == {}


def test_the_interval_between_probes_grows_to_ten_minutes():
    world = started()
    world.fleet.instances.clear()
    world.fleet.launch("gpu-workers", "i-0000000000000000f", world.clock.now() - timedelta(days=2))
    intervals = []
    for _ in range(90):
        attempt = world.node().case.attempt
        intervals.append(attempt.probe_at - world.clock.now())
        world.advance_minutes()
    assert max(intervals) == timedelta(minutes=10)
    assert world.node().case.attempt.tries < 15


def test_the_task_token_is_never_recorded_in_an_entry():
    world = started()
    token = world.node().case.attempt.task_token
    assert token is not None
    assert not [body for body in world.bodies() if token in str(body)]


def test_a_long_report_is_stored_whole_outside_the_entry():
    from faultbridge.record.ports.compute import Verdict, Verification

    world = World()
    world.verifier.result = Verification(Verdict.PASSED, report=b"x" * 10_000)
    world.fault_until_resolved()
    (passed,) = [body["data"] for body in world.bodies() if body["data"].get("outcome") == "passed"]
    object_key = passed["facts"]["report"]
    assert object_key.startswith("raw/train-a/2026-02-03/")
    assert world.objects.stored[object_key] == b"x" * 10_000


def test_the_instance_of_a_node_without_a_group_is_not_released():
    world = World()
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, placement=replace(state.placement, group=None))),
        actor=Actor.CLI,
    )
    world.fault_and_react()
    assert (world.case().status, world.released_instances()) == (CaseStatus.ESCALATED, [])
    assert world.case().reason.startswith("NOT_FOUND")


def test_an_unknown_provider_is_named_in_the_reason_of_the_escalated_case():
    world = World()
    Registration(world.table, world.append, world.clock).set_cluster("train-a", {"provider": "abacus"})
    world.fault_until(CaseStatus.ESCALATED)
    assert "unknown provider: 'abacus'; known: ec2-auto-scaling, ec2-launch-template" in world.case().reason


def test_a_step_that_has_no_result_at_its_deadline_times_out():
    world = started(launch_delay=timedelta(days=1))
    deadline = world.case().attempt.deadline
    world.clock.advance(deadline - world.clock.now() - timedelta(seconds=1))
    assert world.step_runner.run_step(payload(world, "await_successor"))["outcome"] == "waiting"
    world.clock.advance(timedelta(seconds=1))
    assert world.step_runner.run_step(payload(world, "await_successor"))["outcome"] == "failed"


def test_only_the_call_that_closed_a_case_is_answered_with_done_afterwards():
    world = started()
    world.until(world.case_is(CaseStatus.RESOLVED))
    answers = {
        step: world.step_runner.run_step(payload(world, step))["outcome"] for step in ("close", "verify", "drain")
    }
    assert answers == {"close": "done", "verify": "superseded", "drain": "superseded"}
    other = payload(world, "close", attempt=world.case().attempts + 1)
    assert world.step_runner.run_step(other)["outcome"] == "superseded"


def test_a_late_close_of_an_escalated_case_is_superseded():
    world = faulty_during_outage("provider.candidates", Misconfigured("no such group"), times=99)
    assert world.case().status is CaseStatus.ESCALATED
    assert world.step_runner.run_step(payload(world, "close"))["outcome"] == "superseded"
