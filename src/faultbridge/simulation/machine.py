"""The state machine on simulated time: each state is a turn of its own, retries wait as long as they should."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.ports import ExecutionStatus
from faultbridge.simulation.fakes.seams import Seam
from faultbridge.simulation.fakes.state_machine import Execution, FakeStateMachine, TaskFailed, matching
from faultbridge.simulation.schedule import Schedule

BETWEEN_STATES = 0.2


class ScheduledStateMachine(FakeStateMachine):
    """A Workflow (fake) whose executions move by turns of a schedule, apart from whoever started or woke them."""

    def __init__(self, schedule: Schedule, *, seam: Seam | None = None) -> None:
        super().__init__(schedule.clock, seam=seam)
        self.schedule = schedule
        self._started: dict[str, datetime] = {}

    def drive(self, execution: Execution) -> None:
        """Let the execution go on soon."""
        self._started.setdefault(execution.name, self.clock.now())
        self._later(execution, BETWEEN_STATES)

    def end_old(self) -> None:
        """End what outlived the machine's own limit, and what waited for its token too long; no catch runs."""
        limit = timedelta(seconds=self.definition["TimeoutSeconds"])
        for name, at in self._started.items():
            if self.executions[name].status is ExecutionStatus.RUNNING and self.clock.now() - at > limit:
                self.abort(name)
        self.let_time_out()

    def running(self) -> list[str]:
        """Return the names of the executions that run."""
        return [name for name, one in self.executions.items() if one.status is ExecutionStatus.RUNNING]

    def _turn(self, execution: Execution) -> None:
        if execution.status is not ExecutionStatus.RUNNING:
            return
        if execution.busy:
            self._later(execution, BETWEEN_STATES)
            return
        execution.busy = True
        tries = execution.retries
        try:
            goes_on = self._step(execution)
        finally:
            execution.busy = False
        if goes_on:
            self._later(execution, self._pause(execution) if execution.retries > tries else BETWEEN_STATES)
        elif execution.token in self._answers:
            self._later(execution, BETWEEN_STATES)

    def _later(self, execution: Execution, seconds: float) -> None:
        self.schedule.after(seconds, f"execution {execution.name[-6:]}", lambda: self._turn(execution))

    def _pause(self, execution: Execution) -> float:
        retrier = matching(self.definition["States"][execution.state].get("Retry", []), TaskFailed.__name__) or {}
        first, rate = retrier.get("IntervalSeconds", 1), retrier.get("BackoffRate", 2)
        return float(first * rate ** (execution.retries - 1))
