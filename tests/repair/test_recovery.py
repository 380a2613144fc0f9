"""Recovery of attempts: what the sweep finds in an execution, and what it does about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from faultbridge.decide.case_moves import move_case
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import ExecutionStatus
from faultbridge.repair.attempt.step_context import LEASE, escalate_case, live_attempt, update_attempt
from faultbridge.repair.attempt.step_runner import RecoveryResult, recover_attempt
from tests.races import run_before_write
from tests.scenarios.world import GROUP, World, limits
from tests.sim.fakes import Call


@pytest.fixture
def between_steps() -> Iterator[World]:
    """Return a world whose node is being repaired; its execution is between two steps, and its lease is over."""
    world = World()
    world.fleet.launch_delay = timedelta(minutes=30)
    world.fault_and_react()
    now = world.clock.now()
    world.append(
        world.key(),
        lambda state, _: Transition(update_attempt(state, step=None, task_token=None, tries=3, probe_at=now)),
        actor=Actor.STEP,
    )
    return world


@pytest.mark.parametrize(
    ("status", "result"),
    [(ExecutionStatus.RUNNING, RecoveryResult.RUNNING), (ExecutionStatus.MISSING, RecoveryResult.STARTED)],
)
def test_an_execution_is_said_to_run_only_if_it_does(
    between_steps: World, status: ExecutionStatus, result: RecoveryResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(between_steps.workflow, "status", lambda _: status)
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is result


def test_the_attempt_after_a_lost_execution_has_all_its_leases(between_steps: World) -> None:
    def refuse(call: Call) -> None:
        if call.name == "workflow.start":
            raise Transient("the service is busy")

    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    between_steps.seam.before = refuse
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is RecoveryResult.RECOVERED
    _, attempt = live_attempt(between_steps.node())
    assert (attempt.number, attempt.tries) == (2, 0)


def test_the_attempt_after_a_lost_execution_is_started_at_once(between_steps: World) -> None:
    case = between_steps.case().id
    between_steps.workflow.abort(f"{case}-1")
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is RecoveryResult.RECOVERED
    assert between_steps.workflow.status(f"{case}-2") is ExecutionStatus.RUNNING


def test_the_step_after_a_lost_execution_has_a_deadline_again() -> None:
    world = World(limits=limits(launch_deadline=timedelta(hours=1)))
    world.fleet.capacity_left = 0
    world.fault_and_react()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(CaseStatus.ESCALATED), minutes=180)
    assert (world.case().attempts, world.case().reason) == (2, f"TIMEOUT: no successor yet in {GROUP}")


def change_attempt(world: World, **changes: object) -> None:
    """Change the attempt of the node, and make it due."""
    due = {"probe_at": world.clock.now(), **changes}
    world.append(world.key(), lambda state, _: Transition(update_attempt(state, **due)), actor=Actor.STEP)


def change_case(world: World, **changes: object) -> None:
    """Change the case of the node, as another writer does."""
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, case=replace(state.case, **changes))),
        actor=Actor.CLI,
    )


def resolve(world: World) -> None:
    """Resolve the case of the node, as the end of another attempt does."""

    def close(state: NodeState, now: datetime) -> Transition:
        return move_case(Transition(state), replace(state.case, status=CaseStatus.RESOLVED), now, "repaired")

    world.append(world.key(), close, actor=Actor.CLOSE)


def before_the_next_write(world: World, act: Callable[[], object]) -> None:
    run_before_write(world.seam, lambda _: True, act)


def test_a_node_without_a_case_needs_no_recovery() -> None:
    world = World()
    assert recover_attempt(world.step_runner, world.key()) is RecoveryResult.NOTHING


def test_an_attempt_whose_probe_is_not_due_yet_is_left_alone(between_steps: World) -> None:
    change_attempt(between_steps, probe_at=between_steps.clock.now() + timedelta(seconds=1))
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is RecoveryResult.NOTHING


def test_a_step_for_which_no_execution_waits_is_left_to_the_execution() -> None:
    world = World()
    world.fleet.launch_delay = timedelta(minutes=30)
    world.fault_and_react()
    change_attempt(world, task_token=None)
    assert recover_attempt(world.step_runner, world.key()) is RecoveryResult.RUNNING
    _, attempt = live_attempt(world.node())
    assert attempt.step == "await_successor"


@pytest.mark.parametrize(("leases", "result"), [(4, RecoveryResult.RUNNING), (5, RecoveryResult.RECOVERED)])
def test_an_execution_counts_as_lost_after_five_leases_between_two_steps(
    between_steps: World, leases: int, result: RecoveryResult
) -> None:
    change_attempt(between_steps, tries=leases)
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is result


def test_an_execution_that_still_runs_uses_one_lease_at_a_time(between_steps: World) -> None:
    _, before = live_attempt(between_steps.node())
    recover_attempt(between_steps.step_runner, between_steps.key())
    _, attempt = live_attempt(between_steps.node())
    assert (attempt.tries, attempt.probe_at) == (before.tries + 1, between_steps.clock.now() + LEASE)


@pytest.mark.parametrize(
    ("attempts", "status", "reason"),
    [(5, CaseStatus.IN_PROGRESS, ""), (6, CaseStatus.ESCALATED, "6 executions were lost")],
)
def test_a_case_that_lost_three_executions_beyond_its_attempts_is_escalated(
    between_steps: World, attempts: int, status: CaseStatus, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_case(between_steps, attempts=attempts)
    monkeypatch.setattr(between_steps.workflow, "status", lambda _: ExecutionStatus.FAILED)
    recover_attempt(between_steps.step_runner, between_steps.key())
    assert (between_steps.case().status, between_steps.case().attempts) == (status, 6)
    assert between_steps.case().reason == reason


def test_attempts_that_do_not_count_are_no_lost_executions(
    between_steps: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_case(between_steps, attempts=9, uncounted=6)
    monkeypatch.setattr(between_steps.workflow, "status", lambda _: ExecutionStatus.FAILED)
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is RecoveryResult.RECOVERED
    assert (between_steps.case().status, between_steps.case().attempts) == (CaseStatus.IN_PROGRESS, 10)


def test_an_attempt_that_another_recovery_has_continued_is_not_continued_again(between_steps: World) -> None:
    def recover() -> None:
        # At another time, because equal writes of the same time are one transaction.
        between_steps.clock.advance(1)
        recover_attempt(between_steps.step_runner, between_steps.key())

    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    before_the_next_write(between_steps, recover)
    recover()
    assert between_steps.case().attempts == 2
    assert between_steps.record_history().count("admission lost") == 1


def test_a_case_that_ends_during_its_recovery_stays_ended(between_steps: World) -> None:
    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    before_the_next_write(between_steps, lambda: resolve(between_steps))
    recover_attempt(between_steps.step_runner, between_steps.key())
    assert (between_steps.case().status, between_steps.case().attempts) == (CaseStatus.RESOLVED, 1)
    assert list(between_steps.workflow.executions) == [f"{between_steps.case().id}-1"]


def test_a_case_that_is_escalated_during_its_recovery_gets_no_further_attempt(between_steps: World) -> None:
    def escalate() -> None:
        between_steps.append(
            between_steps.key(), lambda state, now: escalate_case(state, now, "a step gave up"), actor=Actor.STEP
        )

    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    before_the_next_write(between_steps, escalate)
    recover_attempt(between_steps.step_runner, between_steps.key())
    assert (between_steps.case().status, between_steps.case().attempts) == (CaseStatus.ESCALATED, 1)
    assert list(between_steps.workflow.executions) == [f"{between_steps.case().id}-1"]


def store(world: World, state: NodeState) -> None:
    """Store a state of the node that no single writer reaches."""
    changed = replace(state, head=replace(state.head, version=state.head.version + 1))
    world.table.write(Put(items.state_item(changed, world.clock.now())))


def test_a_case_that_is_opened_during_the_recovery_of_another_one_is_not_started(between_steps: World) -> None:
    first, state = between_steps.case().id, between_steps.node()
    queued = replace(between_steps.case(), id="c-next", status=CaseStatus.QUEUED, attempts=0, attempt=None)
    between_steps.workflow.abort(f"{first}-1")
    before_the_next_write(between_steps, lambda: store(between_steps, replace(state, case=queued)))
    recover_attempt(between_steps.step_runner, between_steps.key())
    assert between_steps.case() == queued
    assert list(between_steps.workflow.executions) == [f"{first}-1"]


@pytest.mark.parametrize(
    ("status", "intended", "result"),
    [
        (NodeStatus.DRAINING, False, RecoveryResult.GIVEN_BACK),
        # Another repair action could act on an instance on which this attempt may have acted.
        (NodeStatus.DRAINING, True, RecoveryResult.RECOVERED),
        # Its verification continues: the instance is new, or another controller repaired it.
        (NodeStatus.VALIDATING, False, RecoveryResult.RECOVERED),
    ],
)
def test_only_a_case_without_an_intent_on_a_node_before_its_repair_is_queued_again(
    between_steps: World, status: NodeStatus, intended: bool, result: RecoveryResult
) -> None:
    state = between_steps.node()
    intent = live_attempt(state)[1].intent if intended else None
    store(between_steps, replace(update_attempt(state, intent=intent), status=status))
    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    assert recover_attempt(between_steps.step_runner, between_steps.key()) is result
