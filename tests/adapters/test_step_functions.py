"""Executions on Step Functions: responses that emulators do not give."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.step_functions import STATUSES, StepFunctionsWorkflow, canonical, execution_arn
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.messaging import ExecutionStatus
from tests.adapters.stubs import stubbed

STATE_MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:replacement"
EXECUTION = "arn:aws:states:us-east-1:123456789012:execution:replacement:c-1-1"


def test_the_same_payload_is_always_the_same_text() -> None:
    assert canonical({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'


def test_an_execution_that_exists_counts_as_started() -> None:
    with stubbed("stepfunctions") as (clients, stub):
        request = {"stateMachineArn": STATE_MACHINE, "name": "c-1-1", "input": "{}"}
        stub.add_client_error("start_execution", "ExecutionAlreadyExists", expected_params=request)
        StepFunctionsWorkflow(clients, STATE_MACHINE).start("c-1-1", {})


def test_any_other_error_is_raised() -> None:
    with stubbed("stepfunctions") as (clients, stub):
        stub.add_client_error("start_execution", "StateMachineDoesNotExist")
        stub.add_client_error("start_execution", "ExecutionLimitExceeded")
        workflow = StepFunctionsWorkflow(clients, STATE_MACHINE)
        with pytest.raises(Misconfigured):
            workflow.start("c-1-1", {})
        with pytest.raises(Transient):
            workflow.start("c-1-1", {})


@pytest.mark.parametrize("code", ["TaskDoesNotExist", "TaskTimedOut", "InvalidToken"])
def test_a_stale_task_token_resumes_nothing(code: str) -> None:
    with stubbed("stepfunctions") as (clients, stub):
        stub.add_client_error("send_task_success", code)
        assert StepFunctionsWorkflow(clients, STATE_MACHINE).resume("t", {}) is False


def test_a_valid_task_token_resumes_the_execution() -> None:
    with stubbed("stepfunctions") as (clients, stub):
        stub.add_response("send_task_success", {}, {"taskToken": "t", "output": '{"a":1}'})
        assert StepFunctionsWorkflow(clients, STATE_MACHINE).resume("t", {"a": 1}) is True


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_every_status_of_the_service_is_mapped(status: str) -> None:
    with stubbed("stepfunctions") as (clients, stub):
        answer = {"executionArn": EXECUTION, "stateMachineArn": STATE_MACHINE, "status": status, "startDate": 0}
        stub.add_response("describe_execution", answer, {"executionArn": EXECUTION})
        assert StepFunctionsWorkflow(clients, STATE_MACHINE).status("c-1-1") is STATUSES[status]
    running = {name for name, kind in STATUSES.items() if kind is ExecutionStatus.RUNNING}
    assert running == {"RUNNING"}


@pytest.mark.parametrize("state_machine", [STATE_MACHINE, f"{STATE_MACHINE}:live", f"{STATE_MACHINE}:3"])
def test_the_execution_arn_is_derived_from_the_state_machine_arn(state_machine: str) -> None:
    assert execution_arn(state_machine, "c-1-1") == EXECUTION


def test_an_invalid_state_machine_arn_is_misconfigured() -> None:
    with pytest.raises(Misconfigured, match="ARN"):
        execution_arn("replacement", "c-1-1")
