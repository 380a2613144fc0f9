"""Schedules the sweep: within a minute after a change, and less often while nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.sim.fakes import ManualClock
from tests.sim.schedule import Schedule

MINUTE = 60.0
MAX_PAUSE = 2 * 3600.0
SWEEP = "sweep"


@dataclass(slots=True)
class SweepSchedule:
    """Schedules calls of `sweep`, which returns whether anything changed.

    `next_timer` returns the time of the earliest future timer. `idle` counts the sweeps since the last sweep that
    changed something. `max_pause` is the longest pause between two sweeps, in seconds.
    """

    clock: ManualClock
    schedule: Schedule
    sweep: Callable[[], bool]
    next_timer: Callable[[], datetime | None]
    idle: int = 0
    max_pause: float = MAX_PAUSE
    _number: int = field(default=0, init=False)
    _pause: float = field(default=MINUTE, init=False)
    _at: datetime | None = field(default=None, init=False)

    def within_a_minute(self) -> None:
        """Schedule the sweep in one minute, unless it is already scheduled for an earlier time."""
        soon = self.clock.now() + timedelta(seconds=MINUTE)
        if self._at is None or self._at > soon:
            self._schedule(MINUTE)

    def _schedule(self, seconds: float) -> None:
        self._number += 1
        number, self._pause = self._number, seconds
        self._at = self.clock.now() + timedelta(seconds=seconds)
        self.schedule.after(seconds, SWEEP, lambda: self._run(number))

    def _run(self, number: int) -> None:
        if number != self._number:
            return  # an earlier sweep has replaced this one
        self._at = None
        self.idle = 0 if self.sweep() else self.idle + 1
        # Idle sweeps back off until the next timer, because they change nothing and only cost time.
        pause = min(self._pause * 2, self.max_pause, self._until_next_timer())
        self._schedule(pause if self.idle else MINUTE)

    def _until_next_timer(self) -> float:
        at = self.next_timer()
        return self.max_pause if at is None else max((at - self.clock.now()).total_seconds(), MINUTE)
