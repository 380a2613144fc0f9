"""Simulated time: a heap of what is due, and a clock that jumps from one to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.simulation.fakes.clock import ManualClock

Do = Callable[[], None]
DEEPEST = 2
"""How many handlers may run within one another: a race of three is a race of any number."""


@dataclass(order=True, slots=True)
class Turn:
    """Something that is to happen at an instant; equal instants keep the order in which they were asked for."""

    at: datetime
    number: int
    name: str = field(compare=False)
    do: Do = field(compare=False)


@dataclass(slots=True)
class Schedule:
    """Runs turns in the order of their time; `after` each of them `settle` is called."""

    clock: ManualClock
    settle: Do = lambda: None
    heard: Callable[[str], None] = lambda _: None
    depth: int = 0
    _turns: list[Turn] = field(default_factory=list)
    _number: int = 0

    def at(self, at: datetime, name: str, do: Do) -> None:
        """Let something happen at an instant, or at once when that has passed."""
        self._number += 1
        heapq.heappush(self._turns, Turn(at, self._number, name, do))

    def after(self, seconds: float, name: str, do: Do) -> None:
        """Let something happen in so many seconds."""
        self.at(self.clock.now() + timedelta(seconds=seconds), name, do)

    def next_at(self) -> datetime | None:
        """Return when the next turn is due."""
        return self._turns[0].at if self._turns else None

    def waiting(self) -> list[str]:
        """Return the names of the turns that are still to come."""
        return [turn.name for turn in self._turns]

    def step(self) -> bool:
        """Run the next turn; False when there is none."""
        if not self._turns:
            return False
        turn = heapq.heappop(self._turns)
        if turn.at > self.clock.now():
            self.clock.advance_to(turn.at)
        self.heard(turn.name)
        turn.do()
        self.settle()
        return True

    def run_until(self, until: datetime) -> None:
        """Run every turn that is due by an instant, then let the clock stand there."""
        while self._turns and self._turns[0].at <= until:
            self.step()
        if until > self.clock.now():
            self.clock.advance_to(until)

    def let_others(self, seconds: float) -> None:
        """Let what is due within so many seconds happen in the midst of the running handler: it pauses or is slow."""
        if self.depth >= DEEPEST:
            return
        self.depth += 1
        try:
            self.run_until(self.clock.now() + timedelta(seconds=seconds))
        finally:
            self.depth -= 1
