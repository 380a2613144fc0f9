"""Rules that every state machine must satisfy; neither SAM nor the emulator checks a definition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.adapters.ec2.commands import DELIVERY_SECONDS
from faultbridge.adapters.ec2.pair_verifier import MAX_PEERS
from faultbridge.decide.policyfile.schema import REPLACEMENT_SECONDS, STEP_DEADLINES, LimitsPart
from faultbridge.decode.verification import DeepChecks, PeerChecks
from infra.docs.template import resources, template
from tests.architecture.project import STATE_MACHINES, relative

HARD_LIMIT = 20 * 3600
LAMBDA = {"arn:${Partition}:states:::lambda:invoke", "arn:${Partition}:states:::lambda:invoke.waitForTaskToken"}
SOURCES = sorted(STATE_MACHINES.glob("*.asl.yaml"))

each_state_machine = pytest.mark.parametrize("source", SOURCES, ids=relative)


def definition(source: Path) -> dict[str, Any]:
    """Return the state machine as data."""
    loaded = yaml.safe_load(source.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def next_of(state: dict[str, Any]) -> Iterator[str]:
    """Return every state that a state may lead to."""
    for part in (state, *state.get("Choices", []), *state.get("Catch", [])):
        yield from (part[key] for key in ("Next", "Default") if key in part)


def tasks(source: Path) -> dict[str, dict[str, Any]]:
    """Return the states that call something."""
    return {name: state for name, state in definition(source)["States"].items() if state["Type"] == "Task"}


def test_what_is_deployed_is_written_in_yaml() -> None:
    deployed = {m["Properties"]["DefinitionUri"] for m in resources("AWS::Serverless::StateMachine").values()}
    assert deployed == {f"statemachines/{source.with_suffix('.json').name}" for source in SOURCES}


@each_state_machine
def test_a_state_machine_has_a_time_limit(source: Path) -> None:
    assert definition(source)["TimeoutSeconds"] <= HARD_LIMIT


@each_state_machine
def test_every_state_is_reached_and_leads_to_one_that_exists(source: Path) -> None:
    state_machine = definition(source)
    reached, todo = set(), [state_machine["StartAt"]]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += next_of(state_machine["States"][name])
    assert reached == set(state_machine["States"])


@each_state_machine
def test_a_task_has_a_shorter_limit_than_its_state_machine(source: Path) -> None:
    assert [name for name, task in tasks(source).items() if not 0 < task.get("TimeoutSeconds", 0) < HARD_LIMIT] == []


@each_state_machine
def test_whatever_a_task_raises_is_caught_or_tried_again_by_the_one_that_records_failures(source: Path) -> None:
    recorders = {catch["Next"] for task in tasks(source).values() for catch in task.get("Catch", [])}
    assert len(recorders) == 1
    for name, task in tasks(source).items():
        rules = task["Retry"] if name in recorders else task["Catch"]
        assert any(rule["ErrorEquals"] == ["States.ALL"] for rule in rules), name


@each_state_machine
def test_only_our_own_functions_are_called(source: Path) -> None:
    for task in tasks(source).values():
        assert task["Resource"] in LAMBDA
        assert task["Parameters"]["FunctionName"] == "${ReplacementFunctionArn}"


LAMBDA_UNAVAILABLE = {"Lambda.TooManyRequestsException", "Lambda.ServiceException", "Lambda.AWSLambdaException"}


@each_state_machine
def test_a_throttled_or_unavailable_lambda_is_retried_for_longer_than_a_failing_step(source: Path) -> None:
    for name, task in tasks(source).items():
        (outage,) = (rule for rule in task["Retry"] if set(rule["ErrorEquals"]) >= LAMBDA_UNAVAILABLE)
        (other,) = (rule for rule in task["Retry"] if rule["ErrorEquals"] == ["States.ALL"])
        assert task["Retry"].index(outage) < task["Retry"].index(other), name
        assert seconds_of(outage) >= 1800 > seconds_of(other), name


def seconds_of(rule: dict[str, Any]) -> float:
    """Return the total seconds that a retry rule waits, without jitter."""
    pauses = (rule["IntervalSeconds"] * rule["BackoffRate"] ** each for each in range(rule["MaxAttempts"]))
    return sum(min(pause, rule.get("MaxDelaySeconds", pause)) for pause in pauses)


def test_the_longest_verification_ends_before_its_step_does() -> None:
    (source,) = SOURCES
    delivery = 3600
    longest_verification = template()["Parameters"]["VerifySeconds"]["MaxValue"]
    deep_tests = DeepChecks().seconds(4)
    peers = MAX_PEERS * (DELIVERY_SECONDS + PeerChecks().seconds + 60)
    assert longest_verification + deep_tests + delivery + peers < tasks(source)["VerifyInstance"]["TimeoutSeconds"]


STATE_OF_DEADLINE = {
    "drain_deadline": "DrainNode",
    "repair_deadline": "RepairInPlace",
    "follow_deadline": "FollowProvider",
    "launch_deadline": "AwaitSuccessor",
    "verify_deadline": "VerifyInstance",
}


def test_the_longest_deadline_of_a_step_ends_before_its_state_does() -> None:
    (source,) = SOURCES
    margin = 3600
    assert {
        name: tasks(source)[state]["TimeoutSeconds"] - margin for name, state in STATE_OF_DEADLINE.items()
    } == STEP_DEADLINES
    assert set(STEP_DEADLINES) == {name for name in LimitsPart.model_fields if name.endswith("_deadline")} - {
        "update_deadline"  # it holds cases in the queue, where no state machine waits
    }


def test_the_longest_replacement_ends_before_its_state_machine_does() -> None:
    (source,) = SOURCES
    others = sum(tasks(source)[name]["TimeoutSeconds"] for name in ("ReleaseInstance", "ReturnToService", "CloseCase"))
    assert REPLACEMENT_SECONDS + others <= definition(source)["TimeoutSeconds"]


MAX_TRANSITIONS = 30


def longest(state_machine: dict[str, Any], name: str) -> int:
    """Return the transitions of the longest path to an end, with every retry that a task allows for its own errors."""
    state = state_machine["States"][name]
    tries = sum(retry["MaxAttempts"] for retry in state.get("Retry", []) if retry["ErrorEquals"] == ["States.ALL"])
    return 1 + tries + max((longest(state_machine, each) for each in set(next_of(state))), default=0)


@each_state_machine
def test_no_path_through_a_state_machine_has_more_than_thirty_transitions(source: Path) -> None:
    state_machine = definition(source)
    assert longest(state_machine, state_machine["StartAt"]) <= MAX_TRANSITIONS
