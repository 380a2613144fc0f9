"""The workflow engine in memory: it keeps what was started and who waits, and runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from faultbridge.ports import ExecutionStatus
from faultbridge.simulation.fakes.seams import Seam


class FakeWorkflow:
    """A Workflow (fake). A test ends executions with `finish` and lets one wait with `wait`."""

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.started: dict[str, Any] = {}
        self.statuses: dict[str, ExecutionStatus] = {}
        self.waiting: set[str] = set()
        self.resumed: list[tuple[str, Any]] = []

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution, once a name."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name):
            raise ValueError(f"{name!r} is no name for an execution")
        with self.seam.around("workflow", "start", name):
            if name not in self.started:
                self.started[name] = json.loads(json.dumps(payload))
                self.statuses[name] = ExecutionStatus.RUNNING

    def status(self, name: str) -> ExecutionStatus:
        """Tell how an execution is doing."""
        with self.seam.around("workflow", "status", name):
            return self.statuses.get(name, ExecutionStatus.MISSING)

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Answer a token."""
        with self.seam.around("workflow", "resume", token):
            if token not in self.waiting:
                return False
            self.waiting.remove(token)
            self.resumed.append((token, json.loads(json.dumps(output))))
            return True

    def wait(self, token: str) -> None:
        """Let somebody wait with this token."""
        self.waiting.add(token)

    def finish(self, name: str, status: ExecutionStatus = ExecutionStatus.SUCCEEDED) -> None:
        """End an execution, as the machine itself or an operator would."""
        self.statuses[name] = status
