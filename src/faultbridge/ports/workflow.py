"""Executions that drive repair attempts through their steps."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol


class ExecutionStatus(StrEnum):
    """Status of one execution; `missing` means that no execution has this name."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


class Workflow(Protocol):
    """Workflow engine that drives one repair attempt through its steps."""

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution with this name; an execution that exists already counts as started."""

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of the execution with this name."""

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Resume the execution that waits with this task token; returns False when none waits with it."""
