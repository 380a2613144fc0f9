"""Recovery of attempts: what the sweep finds in an execution, and what it does about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor
from faultbridge.errors import Transient
from faultbridge.ports import ExecutionStatus
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.recovery import RecoverAttempts, RecoveryResult
from faultbridge.simulation.fakes import Call
from tests.scenarios.world import World


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
    assert RecoverAttempts(between_steps.step_runner)(between_steps.key()) is result


def test_the_attempt_after_a_lost_execution_has_all_its_leases(between_steps: World) -> None:
    def refuse(call: Call) -> None:
        if call.name == "workflow.start":
            raise Transient("the service is busy")

    between_steps.workflow.abort(f"{between_steps.case().id}-1")
    between_steps.seam.before = refuse
    assert RecoverAttempts(between_steps.step_runner)(between_steps.key()) is RecoveryResult.RECOVERED
    _, attempt = live_attempt(between_steps.node())
    assert (attempt.number, attempt.tries) == (2, 0)


def test_the_attempt_after_a_lost_execution_is_started_at_once(between_steps: World) -> None:
    case = between_steps.case().id
    between_steps.workflow.abort(f"{case}-1")
    assert RecoverAttempts(between_steps.step_runner)(between_steps.key()) is RecoveryResult.RECOVERED
    assert between_steps.workflow.status(f"{case}-2") is ExecutionStatus.RUNNING
