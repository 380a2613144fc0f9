"""Progress of an attempt: superseded without a live attempt, and no probe after the deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cases import Phase
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.attempt.progress import live_attempt, record_outcome, schedule_probe, start_or_resume_step
from faultbridge.repair.attempt.step_contract import AttemptSuperseded, StepOutcome
from tests.builders import NOON, node
from tests.scenarios.world import World

MINUTE = timedelta(minutes=1)


@pytest.fixture
def waiting() -> NodeState:
    """Return a node whose attempt waits in a step with a deadline."""
    world = World()
    world.fault_and_react()
    state = world.node()
    assert state.live_case is not None
    return start_or_resume_step(state, "verify", None, NOON, 5 * MINUTE)


def test_a_node_without_a_case_has_no_live_attempt() -> None:
    with pytest.raises(AttemptSuperseded):
        live_attempt(node())


def test_a_case_without_an_attempt_has_no_live_attempt(waiting: NodeState) -> None:
    case, _ = live_attempt(waiting)
    with pytest.raises(AttemptSuperseded):
        live_attempt(replace(waiting, case=replace(case, attempt=None)))


@pytest.mark.parametrize(
    ("elapsed", "interval"),
    [
        (timedelta(0), 4 * MINUTE),
        (2 * MINUTE, 3 * MINUTE),
        (5 * MINUTE, 4 * MINUTE),
        (6 * MINUTE, 4 * MINUTE),
    ],
)
def test_the_next_probe_is_no_later_than_a_future_deadline(
    waiting: NodeState, elapsed: timedelta, interval: timedelta
) -> None:
    now = NOON + elapsed
    _, attempt = live_attempt(schedule_probe(waiting, now, 4 * MINUTE))
    assert attempt.probe_at == now + interval


def test_the_step_after_a_recorded_outcome_has_all_its_tries(waiting: NodeState) -> None:
    probed = schedule_probe(schedule_probe(waiting, NOON, MINUTE), NOON, MINUTE)
    _, attempt = live_attempt(record_outcome(probed, "verify", StepOutcome.DONE, Phase.CLOSING, NOON))
    assert attempt.tries == 0


@pytest.mark.parametrize(("given", "stored"), [(None, "first"), ("second", "second")])
def test_a_resumed_step_keeps_its_token_until_a_call_has_another_one(
    waiting: NodeState, given: str | None, stored: str
) -> None:
    begun = start_or_resume_step(waiting, "close", "first", NOON, MINUTE)
    _, attempt = live_attempt(start_or_resume_step(begun, "close", given, NOON, MINUTE))
    assert attempt.task_token == stored


def test_each_probe_doubles_the_interval_to_the_next_one(waiting: NodeState) -> None:
    state, intervals = waiting, []
    for _ in range(3):
        state = schedule_probe(state, NOON, MINUTE)
        intervals.append(live_attempt(state)[1].probe_at - NOON)
    assert intervals == [MINUTE, 2 * MINUTE, 4 * MINUTE]
