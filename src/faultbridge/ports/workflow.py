"""Port for the workflow executions that drive repair attempts through their steps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol


class ExecutionStatus(StrEnum):
    """The status of one workflow execution; `missing` means that no execution has this name."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


class Workflow(Protocol):
    """Starts and resumes the workflow executions that drive repair attempts through their steps.

    Each execution drives one attempt.
    """

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution with this name. An execution that already exists counts as started.

        Raises ValueError for an invalid name.
        """

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of the workflow execution with this name."""

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Resume the execution that waits with this task token; returns False if none waits with it."""
