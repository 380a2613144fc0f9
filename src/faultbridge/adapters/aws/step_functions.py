"""Start, read and resume executions of repair attempts on Step Functions (Standard workflows)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, translated
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.messaging import ExecutionStatus

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_STATE_MACHINE = re.compile(r"(arn:[^:]+:states:[^:]*:[^:]*):stateMachine:([^:]+)(:[^:]+)?")

# Errors for a task token whose task no longer waits: its execution has ended, timed out or continued.
STALE_TOKEN = frozenset({"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"})

STATUSES: Mapping[str, ExecutionStatus] = {
    "RUNNING": ExecutionStatus.RUNNING,
    "SUCCEEDED": ExecutionStatus.SUCCEEDED,
    "FAILED": ExecutionStatus.FAILED,
    "TIMED_OUT": ExecutionStatus.FAILED,
    "ABORTED": ExecutionStatus.FAILED,
    "PENDING_REDRIVE": ExecutionStatus.FAILED,
}


class StepFunctionsWorkflow:
    """A Workflow on one Step Functions state machine: its ARN, with or without a version or alias."""

    def __init__(self, clients: Clients, state_machine: str) -> None:
        self._clients = clients
        self._state_machine = state_machine

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution, unless one of this name exists; raises ValueError for an invalid name."""
        with translated(f"starting the execution {name}"):
            try:
                self._clients.stepfunctions.start_execution(
                    stateMachineArn=self._state_machine, name=execution_name(name), input=canonical(payload)
                )
            except ClientError as error:
                if code_of(error) != "ExecutionAlreadyExists":
                    raise

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of the execution with this name; MISSING if there is no such execution."""
        with translated(f"reading the execution {name}"):
            try:
                answer = self._clients.stepfunctions.describe_execution(
                    executionArn=execution_arn(self._state_machine, name)
                )
            except ClientError as error:
                if code_of(error) == "ExecutionDoesNotExist":
                    return ExecutionStatus.MISSING
                raise
        return STATUSES[answer["status"]]

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Resume the execution that waits with this task token; returns False if no execution waits with it."""
        with translated("resuming an execution"):
            try:
                self._clients.stepfunctions.send_task_success(taskToken=token, output=canonical(output))
            except ClientError as error:
                if code_of(error) in STALE_TOKEN:
                    return False
                raise
        return True


def canonical(payload: Mapping[str, Any]) -> str:
    """Return the payload as canonical JSON, so that a repeated start has the same input."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def execution_name(name: str) -> str:
    """Return the name unchanged; raises ValueError if Step Functions does not accept it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"invalid execution name: {name!r}; 1 to 80 letters, digits, - or _")
    return name


def execution_arn(state_machine: str, name: str) -> str:
    """Return the ARN of an execution, which has no version or alias; Misconfigured for any other ARN."""
    match = _STATE_MACHINE.fullmatch(state_machine)
    if match is None:
        raise Misconfigured(f"not the ARN of a state machine: {state_machine!r}")
    return f"{match[1]}:execution:{match[2]}:{execution_name(name)}"
