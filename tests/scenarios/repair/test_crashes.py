"""A crash before or after any side effect of a replacement only delays it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence
from faultbridge.record.ports.messaging import ExecutionStatus
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.repair.attempt.step_context import escalate_case
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.races import run_before_call, run_before_write
from tests.scenarios.world import World
from tests.sim.fakes import Call, raise_once

RESOLVED = CaseStatus.RESOLVED
EFFECTS = {"write", "transact", "replace", "restart", "begin", "start", "resume", "cordon", "uncordon", "drain"}
EXACTLY_ONCE = {
    "intent committed",
    "release_instance released",
    "await_successor claimed",
    "verify passed",
    "node validating -> healthy",
    "case in_progress -> resolved (replaced)",
}


class Crash(Exception):  # noqa: N818 - it models a crash, not an error
    """Raised when the process crashes."""


class CrashAt:
    """A hook that crashes the process once, at the n-th side effect; it also counts the side effects."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.seen = 0

    def __call__(self, call: Call) -> None:
        if call.operation not in EFFECTS:
            return
        self.seen += 1
        if self.seen == self.number:
            raise Crash(call.name)


def world_with_a_fault(*, orchestrated: bool = False) -> World:
    world = World(launch_delay=timedelta(minutes=1), orchestrated=orchestrated)
    world.verifier.duration = timedelta(minutes=1)
    world.fault()
    return world


def run(world: World) -> None:
    world.process_entries()
    world.until(world.case_is(RESOLVED), minutes=60)
    world.advance_minutes(4)


def count_effects(*, orchestrated: bool) -> int:
    world = world_with_a_fault(orchestrated=orchestrated)
    counter = CrashAt(None)
    world.seam.before = counter
    run(world)
    return counter.seen


def check_single_replacement(world: World) -> None:
    story = Counter(world.record_history())
    assert world.status() is NodeStatus.HEALTHY
    assert {line: story[line] for line in EXACTLY_ONCE} == dict.fromkeys(EXACTLY_ONCE, 1)
    assert set(world.released_instances()) == {"i-00000000000000001"}
    assert sum(not one.alive for one in world.fleet.instances.values()) == 1
    assert world.control().holders == {}
    assert world.orchestrator.cordoned == set()
    sequences = [body["metadata"]["sequence"] for body in world.bodies()]
    assert sequences == list(range(1, len(sequences) + 1))
    for execution in world.workflow.executions.values():
        assert execution.status is ExecutionStatus.SUCCEEDED
        assert execution.transitions <= 30


@pytest.mark.parametrize("orchestrated", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_side_effect_ends_in_exactly_one_replacement(moment: str, orchestrated: bool) -> None:
    total = count_effects(orchestrated=orchestrated)
    assert total > 20
    for number in range(1, total + 1):
        world = world_with_a_fault(orchestrated=orchestrated)
        crash = CrashAt(number)
        setattr(world.seam, moment, crash)
        run(world)
        try:
            check_single_replacement(world)
        except AssertionError as error:
            message = f"crash {moment} effect {number}: {world.record_history()}"
            raise AssertionError(message) from error


def test_the_provider_is_called_once_although_the_step_crashes_after_the_call() -> None:
    world = world_with_a_fault()
    world.seam.after = raise_once(("provider.replace", Crash()))
    run(world)
    assert world.released_instances() == ["i-00000000000000001"]


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_an_ambiguous_answer_with_effect_causes_no_second_replacement(failure: ProviderFailure) -> None:
    world = world_with_a_fault()
    world.provider.fail_next(failure, effect=True)
    run(world)
    assert world.released_instances() == ["i-00000000000000001"]
    check_single_replacement(world)


def test_an_ambiguous_answer_without_effect_is_retried_only_after_a_probe() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    world.provider.probe_unknown = True
    world.process_entries(minutes=10)
    assert world.status() is NodeStatus.REPLACING
    assert len(world.released_instances()) == 1
    world.provider.probe_unknown = False
    world.until(world.case_is(RESOLVED))
    assert world.released_instances() == ["i-00000000000000001"] * 2
    assert len({token for _, token in world.provider.replaced}) == 1


def test_a_call_that_no_probe_can_resolve_escalates_the_case_and_does_not_requeue_it() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    world.provider.probe_unknown = True
    world.until_case(CaseStatus.ESCALATED)
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason.startswith("AMBIGUOUS")


@pytest.mark.parametrize("failure", [ProviderFailure.CAPACITY, ProviderFailure.THROTTLED])
def test_a_refusal_without_effect_keeps_the_node_and_retries_later(failure: ProviderFailure) -> None:
    world = world_with_a_fault()
    world.provider.fail_next(failure)
    world.process_entries()
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, CaseStatus.QUEUED)
    assert world.control().holders == {}
    assert world.case().attempt is None
    world.until(world.case_is(RESOLVED))
    assert world.case().attempts == 2


def test_repeated_refusals_escalate_the_case_after_the_last_attempt() -> None:
    world = world_with_a_fault()
    for _ in range(3):
        world.provider.fail_next(ProviderFailure.THROTTLED)
    world.until_case(CaseStatus.ESCALATED)
    assert (world.status(), world.case().attempts) == (NodeStatus.FAILED, 3)
    assert world.control().holders == {}


def test_attempts_without_capacity_do_not_count_when_a_release_is_refused() -> None:
    world = world_with_a_fault()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    world.process_entries()
    world.until(lambda: world.case().attempts + world.case().capacity_checks > Limits().attempts)
    assert world.case().counted_attempts == 0
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION)
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.until(lambda: bool(world.released_instances()))
    assert (world.case().status, world.case().counted_attempts) == (CaseStatus.QUEUED, 1)
    world.until(world.case_is(RESOLVED))


def test_a_permanent_refusal_escalates_the_case_at_once() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.process_entries()
    assert world.case().status is CaseStatus.ESCALATED
    assert world.case().reason.startswith("PERMISSION_DENIED")
    assert world.fleet.instances["i-00000000000000001"].alive


def test_a_start_whose_answer_was_lost_starts_no_second_execution() -> None:
    world = world_with_a_fault()
    world.seam.after = raise_once(("workflow.start", Transient("the answer was lost")))
    run(world)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]
    check_single_replacement(world)


def test_the_sweep_starts_an_execution_whose_start_failed() -> None:
    world = world_with_a_fault()
    world.seam.before = raise_once(("workflow.start", Transient("throttled")))
    world.process_entries()
    assert (world.case().status, world.workflow.executions) == (CaseStatus.IN_PROGRESS, {})
    world.advance_minutes(3)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]
    world.until(world.case_is(RESOLVED))


def test_an_execution_lost_after_the_intent_is_continued_by_the_next_one() -> None:
    world = world_with_a_fault()
    world.fleet.launch_delay = timedelta(minutes=30)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert world.released_instances() == ["i-00000000000000001"]
    assert world.case().attempts == 2
    assert "await_successor lost" in world.record_history()
    assert world.record_history().count("intent committed") == 1


def test_an_execution_lost_before_the_intent_releases_its_slot() -> None:
    world = world_with_a_fault(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=12)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(lambda: world.case().status is CaseStatus.QUEUED)
    assert (world.status(), world.control().holders) == (NodeStatus.QUARANTINED, {})
    world.until(world.case_is(RESOLVED))
    assert len(world.released_instances()) == 1


def test_an_execution_that_hangs_between_two_steps_is_treated_as_lost_and_fenced() -> None:
    world = world_with_a_fault()
    world.workflow.handler = lambda _: {}  # returns nothing, as a function that crashes at its start
    world.process_entries()
    world.workflow.handler = world.step_runner.run_step
    hanging = world.workflow.executions[f"{world.case().id}-1"]
    world.until(world.case_is(RESOLVED), minutes=60)
    assert world.case().attempts == 2
    assert world.released_instances() == ["i-00000000000000001"]
    world.clock.advance(timedelta(hours=5))
    world.workflow.expire_tokens()
    assert hanging.visited[-1] == "Stopped"
    assert world.case().status is RESOLVED


def test_a_step_of_a_finished_attempt_returns_superseded_and_writes_nothing() -> None:
    world = world_with_a_fault()
    world.process_entries()
    case = world.case()
    payload = {
        "v": 1,
        "cluster": "train-a",
        "node": "node-1",
        "case": case.id,
        "attempt": 7,
        "step": "release_instance",
    }
    before = world.bodies()
    assert world.step_runner.run_step(payload)["outcome"] == "superseded"
    assert world.step_runner.run_step(payload | {"case": "c-other", "attempt": 1})["outcome"] == "superseded"
    assert world.bodies() == before


def test_a_repeated_step_returns_the_same_answer_and_writes_nothing() -> None:
    world = world_with_a_fault()
    world.process_entries()
    case = world.case()
    payload = {"v": 1, "cluster": "train-a", "node": "node-1", "case": case.id, "attempt": 1}
    before = world.bodies()
    for step in ("drain", "release_instance"):
        assert world.step_runner.run_step(payload | {"step": step})["outcome"] == "done"
    assert (world.bodies(), len(world.released_instances())) == (before, 1)


def test_a_repeated_close_returns_done() -> None:
    world = world_with_a_fault()
    run(world)
    case = world.case()
    payload = {"v": 1, "cluster": "train-a", "node": "node-1", "case": case.id, "attempt": 1, "step": "close"}
    assert world.step_runner.run_step(payload)["outcome"] == "done"


def test_a_successor_claimed_by_another_node_is_left_to_it_and_the_next_one_is_claimed() -> None:
    world = world_with_a_fault()
    world.process_entries()
    world.clock.advance(timedelta(minutes=2))
    (first,) = [one.instance_id for one in world.fleet.running("gpu-workers")]
    second = world.fleet.launch("gpu-workers")
    claim = {"cluster": "train-a", "node": "node-9", "case": "c-other", "attempt": 1}
    put = Put(items.item(keys.claim(first), world.clock.now(), claim))
    run_before_write(world.seam, lambda write: write.key.sk == "CLAIM", lambda: world.table.write(put))
    world.advance_minutes()
    assert world.instance() == second
    assert world.table.get(keys.claim(first))["case"] == "c-other"
    assert world.table.get(keys.claim(second))["case"] == world.case().id


def test_an_instance_registered_for_another_node_is_no_successor() -> None:
    world = world_with_a_fault()
    world.fleet.capacity_left = 0
    world.process_entries()
    grown = world.fleet.launch("gpu-workers", at=world.clock.now() + timedelta(seconds=5))
    world.clock.advance(10)
    registration = Registration(world.table, world.append, world.clock)
    registration.add_node("train-a", NewNode("node-7", grown, "gpu-workers"))
    world.advance_minutes(10)
    assert world.status() is NodeStatus.PROVISIONING


def test_a_step_that_loses_its_attempt_writes_nothing() -> None:
    world = world_with_a_fault()
    world.process_entries()
    world.clock.advance(timedelta(minutes=2))
    run_before_call(
        world.seam,
        "provider.candidates",
        lambda: world.append(
            world.key(),
            lambda state, now: escalate_case(state, now, "an operator took over"),
            actor=Actor.STEP,
        ),
    )
    world.sweep.run()
    assert world.case().reason == "an operator took over"
    assert world.status() is NodeStatus.FAILED
    assert "await_successor claimed" not in world.record_history()


def test_a_step_in_progress_is_not_started_a_second_time() -> None:
    world = world_with_a_fault()
    world.fleet.capacity_left = 0
    world.process_entries()
    world.clock.advance(timedelta(minutes=2))
    world.seam.calls.clear()
    run_before_call(world.seam, "provider.candidates", world.sweep.run)
    world.sweep.run()
    assert len(world.seam.named("provider.candidates")) == 1


def test_a_slow_step_of_a_lost_execution_leaves_the_node_to_the_next_attempt() -> None:
    world = world_with_a_fault()
    world.process_entries()
    world.clock.advance(timedelta(minutes=2))

    def next_attempt(state: NodeState, now: datetime) -> Transition:
        attempt = replace(state.case.attempt, number=2, step=None, task_token=None, probe_at=now)
        return Transition(replace(state, case=replace(state.case, attempts=2, attempt=attempt), due_at=now))

    run_before_call(
        world.seam,
        "provider.candidates",
        lambda: world.append(world.key(), next_attempt, actor=Actor.SWEEP),
    )
    world.sweep.run()
    assert world.status() is NodeStatus.PROVISIONING
    assert "await_successor claimed" not in world.record_history()
    world.until(world.case_is(RESOLVED))
    assert world.case().attempts == 2


def test_a_return_that_fails_after_the_uncordon_cordons_the_node_again() -> None:
    world = world_with_a_fault(orchestrated=True)

    def crash(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            raise Crash(call.name)

    world.seam.after = crash
    world.until_case(CaseStatus.ESCALATED)
    assert world.status() is NodeStatus.FAILED
    assert world.orchestrator.cordoned == {"node-1"}


def test_a_fault_after_an_uncordon_without_an_answer_cordons_the_node_again() -> None:
    world = world_with_a_fault(orchestrated=True)
    uncordon = world.orchestrator.uncordon

    def uncordon_without_an_answer(node: ClusterNode) -> CallResult:
        uncordon(node)
        world.fault(code="xid.48", seen=world.clock.now())
        return CallResult(ProviderFailure.TIMEOUT, "no answer", no_response=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.orchestrator, "uncordon", uncordon_without_an_answer)
        world.process_entries()
        world.until(lambda: "VERIFY_FAILED" in world.case().reason)
    assert world.node().isolation is Isolation.CONFIRMED
    assert world.orchestrator.cordoned == {"node-1"}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_cordon_of_a_lost_execution_is_withdrawn_once_the_next_one_closed_the_case(moment: str) -> None:
    world = world_with_a_fault(orchestrated=True)
    uncordoned: list[Call] = []

    def crash_at_a_cordon_after_the_return(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            uncordoned.append(call)
        elif call.name == "orchestrator.cordon" and uncordoned:
            raise Crash(call.name)

    def lose_the_answer_of_the_return(event: dict[str, Any]) -> Mapping[str, Any]:
        answer = world.step_runner.run_step(event)
        if event["step"] == "return_to_service" and event["attempt"] == 1:
            raise Crash("return_to_service")
        return answer

    setattr(world.seam, moment, crash_at_a_cordon_after_the_return)
    world.workflow.handler = lose_the_answer_of_the_return
    world.until_case(RESOLVED)
    assert world.case().attempts == 2
    world.advance_minutes(2)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert world.orchestrator.cordoned == set()


def test_a_cordon_that_cannot_be_repeated_is_not_stored_as_confirmed() -> None:
    world = world_with_a_fault(orchestrated=True)
    uncordoned: list[Call] = []

    def become_unreachable(call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not uncordoned:
            world.orchestrator.unreachable_until = world.clock.now() + timedelta(hours=2)
        if call.name == "orchestrator.uncordon" and len(uncordoned) < 3:
            uncordoned.append(call)
            raise Crash(call.name)

    world.seam.after = become_unreachable
    world.process_entries()
    world.until(lambda: len(uncordoned) == 3)
    world.advance_minutes(5)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.REQUESTED, set())
    world.until(world.case_is(CaseStatus.ESCALATED))
    world.advance_minutes(130)
    assert (world.status(), world.node().isolation) == (NodeStatus.VALIDATING, Isolation.CONFIRMED)
    assert world.orchestrator.cordoned == {"node-1"}
