"""Simulated time: a queue of scheduled calls, and a clock that advances from call to call."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tests.sim.fakes.clock import ManualClock

Action = Callable[[], None]
MAX_NESTING = 2
"""Maximum depth of calls to `run_others`: at most three handlers race."""


class ScheduledCall(NamedTuple):
    """A call that is scheduled for a time; calls for the same time run in the order of scheduling.

    `number` is unique and increases with each call, so that the queue never compares names or actions.
    """

    at: datetime
    number: int
    name: str
    action: Action


@dataclass(slots=True)
class Schedule:
    """Runs scheduled calls in the order of their times.

    `on_call` is called with the name of each call before the call runs. `after_each` is called after each call.
    """

    clock: ManualClock
    after_each: Action = lambda: None
    on_call: Callable[[str], None] = lambda _: None
    nesting: int = 0
    _calls: list[ScheduledCall] = field(default_factory=list)
    _count: int = 0

    def at(self, at: datetime, name: str, action: Action) -> None:
        """Schedule a call for a time; a call for a past time runs as soon as possible."""
        self._count += 1
        heapq.heappush(self._calls, ScheduledCall(at, self._count, name, action))

    def after(self, seconds: float, name: str, action: Action) -> None:
        """Schedule a call for a number of seconds from now, in simulated time."""
        self.at(self.clock.now() + timedelta(seconds=seconds), name, action)

    def pending_names(self) -> list[str]:
        """Return the names of the scheduled calls that have not run yet."""
        return [call.name for call in self._calls]

    def step(self) -> bool:
        """Advance the clock to the next call and run the call; returns False if no call is scheduled."""
        if not self._calls:
            return False
        call = heapq.heappop(self._calls)
        if call.at > self.clock.now():
            self.clock.advance_to(call.at)
        self.on_call(call.name)
        call.action()
        self.after_each()
        return True

    def run_until(self, until: datetime) -> None:
        """Run every call that is scheduled up to a time, then advance the clock to this time."""
        while self._calls and self._calls[0].at <= until:
            self.step()
        if until > self.clock.now():
            self.clock.advance_to(until)

    def run_others(self, seconds: float) -> None:
        """Run the calls that are scheduled within some seconds, in the middle of the current call.

        This creates races between Lambda functions. At a nesting depth of two, no call runs.
        """
        if self.nesting >= MAX_NESTING:
            return
        self.nesting += 1
        try:
            self.run_until(self.clock.now() + timedelta(seconds=seconds))
        finally:
            self.nesting -= 1
