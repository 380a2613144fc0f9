"""A fake of Step Functions in simulated time: each state is a scheduled call, and retries are delayed."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.record.ports.messaging import ExecutionStatus
from tests.sim.fakes.seam import Seam
from tests.sim.fakes.state_machine import Execution, FakeStateMachine, TaskFailed, matching
from tests.sim.schedule import Schedule

STATE_DELAY = 0.2
"""Seconds between two states of an execution."""


class ScheduledStateMachine(FakeStateMachine):
    """Implements `Workflow` (fake): each state of an execution runs in a separate scheduled call."""

    def __init__(self, schedule: Schedule, *, seam: Seam | None = None) -> None:
        super().__init__(schedule.clock, seam=seam)
        self.schedule = schedule
        self._started: dict[str, datetime] = {}

    def advance(self, execution: Execution) -> None:
        """Schedule a call that runs the current state of an execution."""
        self._started.setdefault(execution.name, self.clock.now())
        self._schedule(execution, STATE_DELAY)

    def expire(self) -> None:
        """Abort executions that exceed the definition's TimeoutSeconds, and fail tasks that waited too long.

        No Catch of the definition runs for an aborted execution.
        """
        limit = timedelta(seconds=self.definition["TimeoutSeconds"])
        for name, at in self._started.items():
            if self.executions[name].status is ExecutionStatus.RUNNING and self.clock.now() - at > limit:
                self.abort(name)
        self.expire_tokens()

    def running(self) -> list[str]:
        """Return the names of the running executions."""
        return [name for name, one in self.executions.items() if one.status is ExecutionStatus.RUNNING]

    def _run_state(self, execution: Execution) -> None:
        if execution.status is not ExecutionStatus.RUNNING:
            return
        if execution.busy:
            self._schedule(execution, STATE_DELAY)
            return
        execution.busy = True
        retries = execution.retries
        try:
            continues = self._step(execution)
        finally:
            execution.busy = False
        if continues:
            self._schedule(execution, self._retry_delay(execution) if execution.retries > retries else STATE_DELAY)
        elif execution.token in self._answers:
            self._schedule(execution, STATE_DELAY)

    def _schedule(self, execution: Execution, seconds: float) -> None:
        self.schedule.after(seconds, f"execution {execution.name[-6:]}", lambda: self._run_state(execution))

    def _retry_delay(self, execution: Execution) -> float:
        retrier = matching(self.definition["States"][execution.state].get("Retry", []), TaskFailed.__name__) or {}
        first, rate = retrier.get("IntervalSeconds", 1), retrier.get("BackoffRate", 2)
        return float(first * rate ** (execution.retries - 1))
