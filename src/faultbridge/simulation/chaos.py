"""Chaos: what breaks the calls of workers, at the seam that all fakes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from faultbridge.errors import Conflict, Transient
from faultbridge.simulation.fakes.seams import Call, Seam
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.weather import FaultKind, Weather


class Crash(BaseException):
    """A worker was killed: nothing that it would have done after this point happens."""


class Endless(BaseException):
    """The history makes calls and comes to no end."""


MAX_CALLS, MAX_CALLS_A_STEP, MAX_FOR_A_POOL = 40_000, 500, 20_000
"""A history of 40 steps makes some five thousand calls; three nodes that waited eight hours each made 41,000. A pool
asks for machines again and again while there are none."""

EFFECTS = frozenset(
    {
        "table.write", "table.transact", "bus.put", "queue.send", "objects.put", "receipts.write", "pager.send",
        "provider.replace", "verifier.start", "orchestrator.cordon", "orchestrator.uncordon", "orchestrator.drain",
        "workflow.start", "workflow.resume", "restarter.restart", "collector.collect", "launcher.launch",
        "launcher.assign", "launcher.terminate",
    }
)  # fmt: skip
"""The side-effect points: after these the world is another."""

_UNSEEN = frozenset({FaultKind.CRASH_AFTER, FaultKind.LOST_ANSWER})


@dataclass(frozen=True, slots=True)
class Outage:
    """A port that does not answer between two instants."""

    port: str
    start: datetime
    end: datetime

    def holds(self, now: datetime) -> bool:
        """Tell whether it lasts at an instant."""
        return self.start <= now < self.end


@dataclass(slots=True)
class Chaos:
    """Breaks calls by the dice of a seed; `without` leaves out faults by their number, for shrinking."""

    weather: Weather
    random: Random
    schedule: Schedule
    journal: Journal
    without: frozenset[int] = frozenset()
    outages: list[Outage] = field(default_factory=list)
    calm: bool = True
    injected: int = 0
    _working: list[str] = field(default_factory=list)
    _table: list[tuple[float, FaultKind]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lay the kinds of faults end to end, so that one throw decides."""
        total = 0.0
        for kind, probability in self.weather.faults.items():
            total += probability
            self._table.append((total, kind))

    def before(self, call: Call) -> FaultKind | None:
        """Decide how a call goes; returns what is to come after it."""
        if not self._working or self.calm:
            return None
        if self.outages and any(one.port == call.port and one.holds(self.schedule.clock.now()) for one in self.outages):
            raise Transient(f"{call.name}: outage")
        if self.random.random() < self.weather.race:
            working, self._working = self._working, []
            self.schedule.let_others(self.random.uniform(0, self.weather.slow))
            self._working = working
        kind = self._thrown(call)
        if kind is None:
            return None
        self.injected += 1
        if self.injected in self.without:
            return None
        self.journal.note(Kind.FAULT, f"#{self.injected} {self._working[-1]}: {call.name} {kind.value}")
        if kind in _UNSEEN:
            return kind
        raise failure(kind, call)

    def after(self, kind: FaultKind, call: Call) -> None:
        """Break a call whose effect is there."""
        raise failure(kind, call)

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        """Let calls be broken: they are those of a worker."""
        self._working.append(name)
        try:
            yield
        finally:
            self._working.pop()

    def _thrown(self, call: Call) -> FaultKind | None:
        thrown = self.random.random()
        if not self._table or thrown >= self._table[-1][0]:
            return None
        kind = next((kind for limit, kind in self._table if thrown < limit), None)
        if kind is FaultKind.CONFLICT and call.name not in {"table.write", "table.transact"}:
            return None
        return None if kind in _UNSEEN and call.name not in EFFECTS else kind


def failure(kind: FaultKind, call: Call) -> BaseException:
    """Return what a call raises that goes wrong in this way."""
    if kind in {FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER}:
        return Crash(call.name)
    if kind is FaultKind.CONFLICT:
        return Conflict(f"{call.name}: another transaction is at it")
    return Transient(f"{call.name}: {kind.value}")


Watcher = Callable[[Call], None]


class ChaosSeam(Seam):
    """A seam that asks the chaos and keeps no record of calls."""

    def __init__(self, chaos: Chaos) -> None:
        super().__init__()
        self._chaos = chaos
        self.calls_left = MAX_CALLS
        self.watchers: list[Watcher] = []

    def around(self, port: str, operation: str, argument: object = None) -> AbstractContextManager[None]:
        """Run one call, broken before or after its effect if the dice say so."""
        call = Call(port, operation, argument)
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Endless(call.name)
        kind = self._chaos.before(call)
        for watch in self.watchers:
            watch(call)
        return _Around(self._chaos, kind, call)


@dataclass(frozen=True, slots=True)
class _Around:
    """What a call that has begun comes to. A class of its own: a history makes tens of thousands of calls."""

    chaos: Chaos
    kind: FaultKind | None
    call: Call

    def __enter__(self) -> None:
        """Let the call have its effect."""

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Break the call after its effect, unless it broke by itself."""
        if self.kind is not None and kind is None:
            self.chaos.after(self.kind, self.call)
