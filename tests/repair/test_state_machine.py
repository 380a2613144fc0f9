"""The state machine definition: bounded length, complete targets, and choices by outcome only."""

from __future__ import annotations

from functools import cache

import pytest

from faultbridge.repair.attempt.step_context import StepOutcome, execution_input
from faultbridge.repair.attempt.step_runner import STEPS
from tests.scenarios.world import World
from tests.sim.fakes.state_machine import CALLBACK, definition

MAX_TRANSITIONS = 30
STATES = definition()["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
CHOICES = {name: state for name, state in STATES.items() if state["Type"] == "Choice"}


def following(state: dict) -> set[str]:
    catches = {catcher["Next"] for catcher in state.get("Catch", [])}
    choices = {choice["Next"] for choice in state.get("Choices", [])}
    return catches | choices | {state[name] for name in ("Next", "Default") if name in state}


def weight(state: dict) -> int:
    """Return the transitions of one state if its step keeps failing; outages of Lambda itself are not counted."""
    retriers = (one for one in state.get("Retry", []) if one["ErrorEquals"] in (["States.ALL"], ["States.Timeout"]))
    return 1 + max((retrier["MaxAttempts"] for retrier in retriers), default=0)


@cache
def longest(name: str) -> int:
    state = STATES[name]
    return weight(state) + max((longest(target) for target in following(state)), default=0)


def test_no_path_has_more_than_thirty_transitions_including_all_retries():
    assert longest(definition()["StartAt"]) <= MAX_TRANSITIONS


def test_every_state_is_reachable_and_every_target_exists():
    seen: set[str] = set()
    todo = [definition()["StartAt"]]
    while todo:
        name = todo.pop()
        seen.add(name)
        todo += following(STATES[name]) - seen
    assert seen == set(STATES)


def test_the_state_machine_calls_exactly_the_steps_that_exist():
    assert {task["Parameters"]["Payload"]["step"] for task in TASKS.values()} == set(STEPS)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_timeout_and_records_its_errors(name):
    state = STATES[name]
    assert 0 < state["TimeoutSeconds"] <= definition()["TimeoutSeconds"]
    if name != "RecordFailure":
        assert state["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "RecordFailure"}]


@pytest.mark.parametrize("name", TASKS)
def test_only_steps_that_may_wait_get_a_task_token(name):
    state = STATES[name]
    payload = state["Parameters"]["Payload"]
    waits = STEPS[payload["step"]].on_timeout is not None
    assert (CALLBACK in state["Resource"]) is waits
    assert ("token.$" in payload) is waits


@pytest.mark.parametrize("name", CHOICES)
def test_an_outcome_that_a_choice_does_not_list_stops_the_attempt(name):
    state = STATES[name]
    named = {choice["StringEquals"] for choice in state["Choices"]}
    assert {choice["Variable"] for choice in state["Choices"]} == {"$.last.outcome"}
    assert named <= set(StepOutcome)
    assert {StepOutcome.DONE, StepOutcome.SUPERSEDED} <= named
    assert state["Default"] == "Stopped"
    assert not {StepOutcome.STOPPED, StepOutcome.FAILED, StepOutcome.WAITING} & named


def test_a_payload_contains_the_execution_input_and_no_result_of_an_earlier_step():
    world = World()
    world.fault()
    given = set(execution_input(world.key(), world.case()))
    for task in TASKS.values():
        payload = set(task["Parameters"]["Payload"])
        assert payload - {"step", "token.$", "error.$"} == {f"{name}.$" for name in given}


def test_every_state_in_the_console_has_a_comment():
    assert not [name for name, state in STATES.items() if state["Type"] != "Choice" and not state.get("Comment")]
