"""The workflow engine on Step Functions Standard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Misconfigured
from faultbridge.ports import ExecutionStatus

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MACHINE = re.compile(r"(arn:[^:]+:states:[^:]*:[^:]*):stateMachine:([^:]+)(:[^:]+)?")

# Somebody whose execution has ended, timed out or went on does not wait any more.
NOBODY_WAITS = frozenset({"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"})

STATUSES: Mapping[str, ExecutionStatus] = {
    "RUNNING": ExecutionStatus.RUNNING,
    "SUCCEEDED": ExecutionStatus.SUCCEEDED,
    "FAILED": ExecutionStatus.FAILED,
    "TIMED_OUT": ExecutionStatus.FAILED,
    "ABORTED": ExecutionStatus.FAILED,
    "PENDING_REDRIVE": ExecutionStatus.FAILED,
}


class StepFunctionsWorkflow:
    """A Workflow of one state machine, of which a version or an alias may be named."""

    def __init__(self, clients: Clients, state_machine: str) -> None:
        self._clients = clients
        self._machine = state_machine

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution; one that ran or runs under this name counts as started. ValueError for a bad name."""
        with translated(f"starting {name}"):
            try:
                self._clients.stepfunctions.start_execution(
                    stateMachineArn=self._machine, name=execution_name(name), input=canonical(payload)
                )
            except ClientError as error:
                if code_of(error) != "ExecutionAlreadyExists":
                    raise

    def status(self, name: str) -> ExecutionStatus:
        """Tell how the execution of this name is doing."""
        with translated(f"looking at {name}"):
            try:
                answer = self._clients.stepfunctions.describe_execution(executionArn=execution_arn(self._machine, name))
            except ClientError as error:
                if code_of(error) == "ExecutionDoesNotExist":
                    return ExecutionStatus.MISSING
                raise
        return STATUSES[answer["status"]]

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Wake the execution that waits with this token; False when nobody waits for it any more."""
        with translated("waking an execution"):
            try:
                self._clients.stepfunctions.send_task_success(taskToken=token, output=canonical(output))
            except ClientError as error:
                if code_of(error) in NOBODY_WAITS:
                    return False
                raise
        return True


def canonical(payload: Mapping[str, Any]) -> str:
    """Write JSON in one way only, so that the same start is the same call."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def execution_name(name: str) -> str:
    """Return the name if Step Functions takes it, else raise ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for an execution")
    return name


def execution_arn(state_machine: str, name: str) -> str:
    """Derive an execution's ARN, which nobody has to store; a version or alias does not show in it."""
    match = _MACHINE.fullmatch(state_machine)
    if match is None:
        raise Misconfigured(f"{state_machine!r} is not the ARN of a state machine")
    return f"{match[1]}:execution:{match[2]}:{execution_name(name)}"
