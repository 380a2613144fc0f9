"""The engine that drives attempts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol


class ExecutionStatus(StrEnum):
    """What the workflow engine says of one execution."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


class Workflow(Protocol):
    """The engine that drives one attempt through its steps."""

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution under this name; one that exists already counts as started."""
        ...

    def status(self, name: str) -> ExecutionStatus:
        """Tell how the execution of this name is doing."""
        ...

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Wake the execution that waits with this token; False when nobody waits for it any more."""
        ...
