"""A crash at any point of a replacement, before or after the effect, changes nothing but the time it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.ports import ExecutionStatus, ProviderFailure
from faultbridge.registry.registration import NewNode, Registration
from faultbridge.repair.attempt.failed_attempts import escalated
from faultbridge.simulation.fakes import Call
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put
from tests.scenarios.world import World

RESOLVED = CaseStatus.RESOLVED
EFFECTS = {"write", "transact", "replace", "restart", "begin", "start", "resume", "cordon", "uncordon", "drain"}
ONCE = {
    "intent committed",
    "release_instance released",
    "await_successor claimed",
    "verify passed",
    "node validating -> healthy",
    "case in_progress -> resolved (replaced)",
}


class Crash(Exception):  # noqa: N818 - what happens, not what went wrong
    """The process died."""


class CrashAt:
    """Lets the process die at the n-th effect, once."""

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
    world.listen()
    world.until(world.case_is(RESOLVED), minutes=60)
    world.minute(4)


def points(*, orchestrated: bool) -> int:
    world = world_with_a_fault(orchestrated=orchestrated)
    counter = CrashAt(None)
    world.seam.before = counter
    run(world)
    return counter.seen


def check(world: World) -> None:
    story = Counter(world.story())
    assert world.status() is NodeStatus.HEALTHY
    assert {line: story[line] for line in ONCE} == dict.fromkeys(ONCE, 1)
    assert set(world.released()) == {"i-00000000000000001"}
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
def test_a_crash_at_any_effect_ends_in_one_replacement_all_the_same(moment: str, orchestrated: bool) -> None:
    total = points(orchestrated=orchestrated)
    assert total > 20
    for number in range(1, total + 1):
        world = world_with_a_fault(orchestrated=orchestrated)
        crash = CrashAt(number)
        setattr(world.seam, moment, crash)
        run(world)
        try:
            check(world)
        except AssertionError as error:
            message = f"crash {moment} effect {number}: {world.story()}"
            raise AssertionError(message) from error


def test_the_provider_is_asked_once_wherever_the_step_dies_after_it_was_asked() -> None:
    world = world_with_a_fault()
    world.seam.after = lambda call: die_once(world, call)
    run(world)
    assert world.released() == ["i-00000000000000001"]


def die_once(world: World, call: Call) -> None:
    if call.name == "provider.replace":
        world.seam.after = lambda _: None
        raise Crash


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_an_ambiguous_answer_after_the_provider_acted_replaces_nothing_twice(failure: ProviderFailure) -> None:
    world = world_with_a_fault()
    world.provider.fail_next(failure, effect=True)
    run(world)
    assert world.released() == ["i-00000000000000001"]
    check(world)


def test_an_ambiguous_answer_without_effect_is_asked_again_only_after_a_probe() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    world.provider.blind = True
    world.listen()
    world.minute(10)
    assert world.status() is NodeStatus.REPLACING
    assert len(world.released()) == 1
    world.provider.blind = False
    world.until(world.case_is(RESOLVED))
    assert world.released() == ["i-00000000000000001"] * 2
    assert len({token for _, token in world.provider.replaced}) == 1


def test_what_no_probe_ever_settles_goes_to_a_person_and_not_back_to_the_queue() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    world.provider.blind = True
    world.listen()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason.startswith("AMBIGUOUS")


@pytest.mark.parametrize("failure", [ProviderFailure.CAPACITY, ProviderFailure.THROTTLED])
def test_a_refusal_before_any_effect_keeps_the_node_and_tries_again_later(failure: ProviderFailure) -> None:
    world = world_with_a_fault()
    world.provider.fail_next(failure)
    world.listen()
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, CaseStatus.QUEUED)
    assert world.control().holders == {}
    assert world.case().attempt is None
    world.until(world.case_is(RESOLVED))
    assert world.case().attempts == 2


def test_refusals_without_end_go_to_a_person_when_the_attempts_are_used_up() -> None:
    world = world_with_a_fault()
    for _ in range(3):
        world.provider.fail_next(ProviderFailure.THROTTLED)
    world.listen()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert (world.status(), world.case().attempts) == (NodeStatus.FAILED, 3)
    assert world.control().holders == {}


def test_a_refusal_that_no_repetition_helps_goes_to_a_person_at_once() -> None:
    world = world_with_a_fault()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.listen()
    assert world.case().status is CaseStatus.ESCALATED
    assert world.case().reason.startswith("PERMISSION_DENIED")
    assert world.fleet.instances["i-00000000000000001"].alive


def test_a_start_whose_answer_was_lost_is_not_started_twice() -> None:
    world = world_with_a_fault()
    world.seam.after = lambda call: lose_the_start(world, call)
    run(world)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]
    check(world)


def lose_the_start(world: World, call: Call) -> None:
    from faultbridge.errors import Transient

    if call.name == "workflow.start":
        world.seam.after = lambda _: None
        raise Transient("the answer was lost")


def test_a_start_that_never_happened_is_made_good_by_the_sweep() -> None:
    world = world_with_a_fault()
    world.seam.before = lambda call: refuse_the_start(world, call)
    world.listen()
    assert (world.case().status, world.workflow.executions) == (CaseStatus.IN_PROGRESS, {})
    world.minute(3)
    assert list(world.workflow.executions) == [f"{world.case().id}-1"]
    world.until(world.case_is(RESOLVED))


def refuse_the_start(world: World, call: Call) -> None:
    from faultbridge.errors import Transient

    if call.name == "workflow.start":
        world.seam.before = lambda _: None
        raise Transient("throttled")


def test_an_execution_lost_after_the_intent_is_followed_by_one_that_goes_on_where_it_stood() -> None:
    world = world_with_a_fault()
    world.fleet.launch_delay = timedelta(minutes=30)
    world.listen()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert world.released() == ["i-00000000000000001"]
    assert world.case().attempts == 2
    assert "await_successor lost" in world.story()
    assert world.story().count("intent committed") == 1


def test_an_execution_lost_before_the_intent_gives_the_slot_back() -> None:
    world = world_with_a_fault(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=12)
    world.listen()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(lambda: world.case().status is CaseStatus.QUEUED)
    assert (world.status(), world.control().holders) == (NodeStatus.QUARANTINED, {})
    world.until(world.case_is(RESOLVED))
    assert len(world.released()) == 1


def test_an_execution_that_hangs_between_two_steps_is_taken_for_lost_and_fenced_off() -> None:
    world = world_with_a_fault()
    world.workflow.handler = lambda _: {}  # answers nobody, as a function that dies before its first word
    world.listen()
    world.workflow.handler = world.machine
    hanging = world.workflow.executions[f"{world.case().id}-1"]
    world.until(world.case_is(RESOLVED), minutes=60)
    assert world.case().attempts == 2
    assert world.released() == ["i-00000000000000001"]
    world.clock.advance(timedelta(hours=5))
    world.workflow.let_time_out()
    assert hanging.visited[-1] == "Stopped"
    assert world.case().status is RESOLVED


def test_a_step_of_an_attempt_that_is_over_answers_superseded_and_does_nothing() -> None:
    world = world_with_a_fault()
    world.listen()
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
    assert world.machine(payload)["outcome"] == "superseded"
    assert world.machine(payload | {"case": "c-other", "attempt": 1})["outcome"] == "superseded"
    assert world.bodies() == before


def test_a_step_called_again_gives_the_same_answer_and_writes_nothing() -> None:
    world = world_with_a_fault()
    world.listen()
    case = world.case()
    payload = {"v": 1, "cluster": "train-a", "node": "node-1", "case": case.id, "attempt": 1}
    before = world.bodies()
    for step in ("drain", "release_instance"):
        assert world.machine(payload | {"step": step})["outcome"] == "done"
    assert (world.bodies(), len(world.released())) == (before, 1)


def test_a_close_called_again_is_closed() -> None:
    world = world_with_a_fault()
    run(world)
    case = world.case()
    payload = {"v": 1, "cluster": "train-a", "node": "node-1", "case": case.id, "attempt": 1, "step": "close"}
    assert world.machine(payload)["outcome"] == "done"


def test_a_successor_that_another_node_takes_in_the_last_moment_is_left_to_it_and_the_next_one_taken() -> None:
    world = world_with_a_fault()
    world.listen()
    world.clock.advance(timedelta(minutes=2))
    (first,) = [one.instance_id for one in world.fleet.running("gpu-workers")]
    second = world.fleet.launch("gpu-workers")
    world.seam.before = lambda call: take_at_the_last_moment(world, call, first)
    world.minute()
    assert world.node().incarnation.instance_id == second
    assert world.table.get(keys.claim(first))["case"] == "c-other"
    assert world.table.get(keys.claim(second))["case"] == world.case().id


def take_at_the_last_moment(world: World, call: Call, instance: str) -> None:
    if call.name == "table.transact" and any(write.key.sk == "CLAIM" for write in call.argument):
        world.seam.before = lambda _: None
        told = {"cluster": "train-a", "node": "node-9", "case": "c-other", "attempt": 1}
        world.table.write(Put(items.item(keys.claim(instance), world.clock.now(), told)))


def test_an_instance_that_is_registered_in_another_node_is_no_successor() -> None:
    world = world_with_a_fault()
    world.fleet.spare = 0
    world.listen()
    grown = world.fleet.launch("gpu-workers", at=world.clock.now() + timedelta(seconds=5))
    world.clock.advance(10)
    registration = Registration(world.table, world.append, world.clock)
    registration.add_node("train-a", NewNode("node-7", grown, "gpu-workers"))
    world.minute(10)
    assert world.status() is NodeStatus.PROVISIONING


def test_a_step_that_loses_its_attempt_while_it_works_writes_nothing_any_more() -> None:
    world = world_with_a_fault()
    world.listen()
    world.clock.advance(timedelta(minutes=2))
    world.seam.before = lambda call: hand_over_meanwhile(world, call)
    world.sweep()
    assert world.case().reason == "an operator took over"
    assert world.status() is NodeStatus.FAILED
    assert "await_successor claimed" not in world.story()


def hand_over_meanwhile(world: World, call: Call) -> None:
    if call.name == "provider.candidates":
        world.seam.before = lambda _: None
        world.append(
            world.key(),
            lambda state, now: escalated(state, now, "an operator took over"),
            actor=Actor.STEP,
            config=world.rulebook.config("train-a"),
        )


def test_while_somebody_is_at_a_step_nobody_else_begins_it() -> None:
    world = world_with_a_fault()
    world.fleet.spare = 0
    world.listen()
    world.clock.advance(timedelta(minutes=2))
    world.seam.calls.clear()
    world.seam.before = lambda call: sweep_meanwhile(world, call)
    world.sweep()
    assert len(world.seam.named("provider.candidates")) == 1


def sweep_meanwhile(world: World, call: Call) -> None:
    if call.name == "provider.candidates":
        world.seam.before = lambda _: None
        world.sweep()


def test_a_step_of_a_lost_execution_that_was_only_slow_leaves_the_node_to_the_next_attempt() -> None:
    world = world_with_a_fault()
    world.listen()
    world.clock.advance(timedelta(minutes=2))
    world.seam.before = lambda call: follow_meanwhile(world, call)
    world.sweep()
    assert world.status() is NodeStatus.PROVISIONING
    assert "await_successor claimed" not in world.story()
    world.until(world.case_is(RESOLVED))
    assert world.case().attempts == 2


def follow_meanwhile(world: World, call: Call) -> None:
    def follow(state: NodeState, now: datetime) -> Transition:
        attempt = replace(state.case.attempt, number=2, step=None, task_token=None, probe_at=now)
        return Transition(replace(state, case=replace(state.case, attempts=2, attempt=attempt), due_at=now))

    if call.name == "provider.candidates":
        world.seam.before = lambda _: None
        world.append(world.key(), follow, actor=Actor.SWEEP, config=world.rulebook.config("train-a"))


def test_a_return_that_fails_without_a_word_after_it_let_work_back_keeps_work_off_again() -> None:
    world = world_with_a_fault(orchestrated=True)

    def die(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            raise Crash(call.name)

    world.seam.after = die
    world.listen()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert world.status() is NodeStatus.FAILED
    assert world.orchestrator.cordoned == {"node-1"}
