"""A fake of Step Functions that records executions and task tokens, and does not run any state."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from faultbridge.record.ports.messaging import ExecutionStatus
from tests.sim.fakes.seam import Seam


class FakeWorkflow:
    """Implements `Workflow` (fake): keeps executions and task tokens without running any state.

    A test registers a task token with `wait`, and ends an execution with `finish`.
    """

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.started: dict[str, Any] = {}
        self.statuses: dict[str, ExecutionStatus] = {}
        self.waiting: set[str] = set()
        self.resumed: list[tuple[str, Any]] = []

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution; a second start with the same name has no effect.

        An invalid name raises `ValueError`.
        """
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name):
            raise ValueError(f"invalid execution name: {name!r}; allowed are 1 to 80 letters, digits, _ and -")
        with self.seam.around("workflow", "start", name):
            if name not in self.started:
                self.started[name] = json.loads(json.dumps(payload))
                self.statuses[name] = ExecutionStatus.RUNNING

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of an execution; MISSING if it was never started."""
        with self.seam.around("workflow", "status", name):
            return self.statuses.get(name, ExecutionStatus.MISSING)

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Complete the task that waits for a task token; returns False if no task waits for it."""
        with self.seam.around("workflow", "resume", token):
            if token not in self.waiting:
                return False
            self.waiting.remove(token)
            self.resumed.append((token, json.loads(json.dumps(output))))
            return True

    def wait(self, token: str) -> None:
        """Register a task token for which a task waits, so that `resume` accepts the token."""
        self.waiting.add(token)

    def finish(self, name: str, status: ExecutionStatus = ExecutionStatus.SUCCEEDED) -> None:
        """Set the final status of an execution."""
        self.statuses[name] = status
