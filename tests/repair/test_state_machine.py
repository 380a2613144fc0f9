"""The definition: bounded, closed, and chosen by outcomes alone."""

from __future__ import annotations

from functools import cache

import pytest

from faultbridge.repair.attempt.contract import Outcome, execution_input
from faultbridge.repair.attempt.step_runner import STEPS
from faultbridge.simulation.fakes.state_machine import CALLBACK, definition
from tests.scenarios.world import World

MAX_TRANSITIONS = 30
STATES = definition()["States"]
TASKS = {name: state for name, state in STATES.items() if state["Type"] == "Task"}
CHOICES = {name: state for name, state in STATES.items() if state["Type"] == "Choice"}


def following(state: dict) -> set[str]:
    catches = {catcher["Next"] for catcher in state.get("Catch", [])}
    choices = {choice["Next"] for choice in state.get("Choices", [])}
    return catches | choices | {state[name] for name in ("Next", "Default") if name in state}


def weight(state: dict) -> int:
    """A state is entered once and, at worst, tried again as often as its retriers allow."""
    return 1 + max((retrier["MaxAttempts"] for retrier in state.get("Retry", [])), default=0)


@cache
def longest(name: str) -> int:
    state = STATES[name]
    return weight(state) + max((longest(target) for target in following(state)), default=0)


def test_no_path_is_longer_than_thirty_transitions_with_every_retry_used():
    assert longest(definition()["StartAt"]) <= MAX_TRANSITIONS


def test_every_state_is_reached_and_every_target_exists():
    seen: set[str] = set()
    todo = [definition()["StartAt"]]
    while todo:
        name = todo.pop()
        seen.add(name)
        todo += following(STATES[name]) - seen
    assert seen == set(STATES)


def test_each_step_that_the_machine_asks_for_exists_and_each_step_is_asked_for():
    assert {task["Parameters"]["Payload"]["step"] for task in TASKS.values()} == set(STEPS)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_a_time_out_and_what_it_cannot_say_is_recorded(name):
    state = STATES[name]
    assert 0 < state["TimeoutSeconds"] <= definition()["TimeoutSeconds"]
    if name != "RecordFailure":
        assert state["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "RecordFailure"}]


@pytest.mark.parametrize("name", TASKS)
def test_a_step_that_may_wait_gets_a_token_and_one_that_may_not_gets_none(name):
    state = STATES[name]
    payload = state["Parameters"]["Payload"]
    waits = STEPS[payload["step"]].late is not None
    assert (CALLBACK in state["Resource"]) is waits
    assert ("token.$" in payload) is waits


@pytest.mark.parametrize("name", CHOICES)
def test_an_outcome_that_a_choice_does_not_name_stops_the_attempt(name):
    state = STATES[name]
    named = {choice["StringEquals"] for choice in state["Choices"]}
    assert {choice["Variable"] for choice in state["Choices"]} == {"$.last.outcome"}
    assert named <= set(Outcome)
    assert {Outcome.DONE, Outcome.SUPERSEDED} <= named
    assert state["Default"] == "Stopped"
    assert not {Outcome.STOPPED, Outcome.FAILED, Outcome.WAITING} & named


def test_a_payload_carries_the_whole_input_of_the_execution_and_nothing_of_the_step_before():
    world = World()
    world.fault()
    told = set(execution_input(world.key(), world.case()))
    for task in TASKS.values():
        payload = set(task["Parameters"]["Payload"])
        assert payload - {"step", "token.$", "error.$"} == {f"{name}.$" for name in told}


def test_every_state_that_an_operator_reads_in_the_console_is_explained():
    assert not [name for name, state in STATES.items() if state["Type"] != "Choice" and not state.get("Comment")]
