"""Fault injection: draws fault rates from the seed, and makes calls to ports fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from random import Random
from threading import RLock
from typing import Any

from faultbridge.model.errors import Conflict, Transient
from tests.sim.fakes.seam import Call, Seam
from tests.sim.journal import Journal, Kind
from tests.sim.schedule import Schedule


class FaultKind(StrEnum):
    """The ways in which a call to a port can fail."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    TRANSIENT = "no answer, no effect"
    LOST_ANSWER = "no answer, but effect"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """The probabilities of faults and the delays of one run.

    - Probabilities: `fault_rates` for each kind of fault in a call, `duplicate_rate` for a second delivery, and
      `race_rate` for other handlers that run during a call, for at most `max_race_seconds` of simulated time.
    - Seconds: `mean_delay` of a delivery, `index_lag` of the table's indexes, the `visibility` timeout of the queue,
      and `mean_gap` between two external actions that do not start at the same time.
    - `max_batch` is the largest size of a batch. `max_retries` limits the retries of a stream record.
    """

    fault_rates: Mapping[FaultKind, float] = field(default_factory=dict)
    race_rate: float = 0.0
    max_race_seconds: float = 2.0
    duplicate_rate: float = 0.0
    mean_delay: float = 0.5
    index_lag: float = 0.0
    max_batch: int = 10
    max_retries: int = 10
    visibility: float = 180.0
    mean_gap: float = 60.0


NO_FAULTS = FaultProfile()


def draw_fault_profile(seed: int) -> FaultProfile:
    """Draw the fault profile of a seed; for about a quarter of the seeds, its `fault_rates` are empty."""
    random = Random(f"weather {seed}")  # another text gives other histories for the same seeds
    scale = random.choice((0.0, 0.002, 0.01, 0.03))
    weights = {kind: random.choice((0.0, 1.0, 1.0, 2.0)) for kind in FaultKind}
    return FaultProfile(
        fault_rates={kind: scale * weight for kind, weight in weights.items() if scale * weight},
        race_rate=random.choice((0.0, 0.02, 0.05)),
        max_race_seconds=random.choice((0.5, 5.0, 45.0)),
        duplicate_rate=random.choice((0.0, 0.02, 0.1)),
        mean_delay=random.choice((0.1, 2.0, 60.0)),
        index_lag=random.choice((0.0, 1.0, 30.0)),
        max_batch=random.choice((1, 3, 10, 100)),
        max_retries=random.choice((0, 2, 10)),
        visibility=random.choice((30.0, 180.0)),
        mean_gap=random.choice((5.0, 60.0, 300.0)),
    )


class Crash(BaseException):
    """Raised by a call when the process of the Lambda function is killed; the product never catches it."""


class CallLimitExceeded(BaseException):
    """Raised when a run makes more calls than its limit, because such a run might never end."""


MAX_CALLS, MAX_CALLS_PER_ACTION, MAX_CALLS_FOR_SPARES, MAX_CALLS_FOR_RACKS = 100_000, 500, 20_000, 80_000
MAX_CALLS_FOR_LARGE = 400_000
"""Call limits of a run: a base, and additions for each action, a spare pool, racks or growth, and a large cluster.
A run of 40 actions makes about 5,000 calls. If its nodes wait for many hours, it makes 41,000 to over 130,000.

A spare pool adds calls, because instances are requested repeatedly while there is no capacity.
"""

MAX_CALLS_PER_DAY, MAX_CALLS_PER_BUSY_DAY = 4_000, 50_000
"""Further calls for each simulated day. An idle cluster with open pages and a spare pool makes about 2,000 a day.

A busy cluster, which repeats repairs or the launch of spares in vain, makes about 45,000: a sweep every two minutes.
"""

EFFECTS = frozenset(
    {
        "table.write", "table.transact", "bus.put", "queue.send", "objects.put", "receipts.write", "pager.send",
        "provider.replace", "verifier.start", "orchestrator.cordon", "orchestrator.uncordon", "orchestrator.drain",
        "workflow.start", "workflow.resume", "restarter.restart", "collector.collect", "collector.read",
        "launcher.launch", "launcher.assign", "launcher.terminate", "volumes.detach", "volumes.attach",
    }
)  # fmt: skip
"""The calls with side effects."""
TABLE_WRITES = frozenset({"write", "transact"})

_AFTER_EFFECT = frozenset({FaultKind.CRASH_AFTER, FaultKind.LOST_ANSWER})


@dataclass(frozen=True, slots=True)
class Outage:
    """A span of time in which a port does not answer."""

    port: str
    start: datetime
    end: datetime

    def covers(self, now: datetime) -> bool:
        """Return whether the outage includes a time."""
        return self.start <= now < self.end


@dataclass(slots=True)
class FaultInjector:
    """Makes calls to ports fail at random while `enabled` is True.

    Only calls of workers fail: Lambda functions, commands of operators, and senders of records. The injected faults are
    numbered. A fault whose number is in `without` is skipped, to find a smaller failing run. `workers` names the
    running workers in the order of their start; the last of them makes the current call.
    """

    profile: FaultProfile
    random: Random
    schedule: Schedule
    journal: Journal
    without: frozenset[int] = frozenset()
    outages: list[Outage] = field(default_factory=list)
    enabled: bool = False
    injected: int = 0
    workers: list[str] = field(default_factory=list)
    _thresholds: list[tuple[float, FaultKind]] = field(default_factory=list)
    _total: float = 0.0

    def __post_init__(self) -> None:
        """Convert the fault rates to cumulative thresholds, so that one random number selects the kind."""
        for kind, probability in self.profile.fault_rates.items():
            self._total += probability
            self._thresholds.append((self._total, kind))

    def before(self, call: Call) -> FaultKind | None:
        """Raise a fault before a call, or return the kind of fault to raise after it (None for no fault).

        If a worker makes the call while faults are enabled, an outage of the port raises `Transient`. To create a race,
        other scheduled calls may run first.
        """
        if not self.workers or not self.enabled:
            return None
        for one in self.outages:
            if one.port == call.port and one.covers(self.schedule.clock.now()):
                raise Transient(f"{call.name}: outage")
        draw = self.random.random
        if draw() < self.profile.race_rate:
            workers, self.workers = self.workers, []
            self.schedule.run_others(self.random.uniform(0, self.profile.max_race_seconds))
            self.workers = workers
        drawn = draw()
        if drawn >= self._total:
            return None
        kind = self._kind_of(drawn, call)
        if kind is None:
            return None
        self.injected += 1
        if self.injected in self.without:
            return None
        self.journal.add(Kind.FAULT, f"#{self.injected} {self.workers[-1]}: {call.name} {kind.value}")
        if kind in _AFTER_EFFECT:
            return kind
        raise fault_error(kind, call)

    def after(self, kind: FaultKind, call: Call) -> None:
        """Raise a fault of this kind; the caller does this after the call has taken effect."""
        raise fault_error(kind, call)

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        """Attribute the calls within the context to a worker, so that they can fail."""
        self.workers.append(name)
        try:
            yield
        finally:
            self.workers.pop()

    def _kind_of(self, drawn: float, call: Call) -> FaultKind | None:
        kind = next((kind for limit, kind in self._thresholds if drawn < limit), None)
        if kind is FaultKind.CONFLICT and call.name not in {"table.write", "table.transact"}:
            return None
        return None if kind in _AFTER_EFFECT and call.name not in EFFECTS else kind


def fault_error(kind: FaultKind, call: Call) -> BaseException:
    """Return the exception that a call raises for a kind of fault."""
    if kind in {FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER}:
        return Crash(call.name)
    if kind is FaultKind.CONFLICT:
        return Conflict(f"{call.name}: conflict with another transaction")
    return Transient(f"{call.name}: {kind.value}")


_UNDISTURBED: AbstractContextManager[Any] = RLock()
"""The context of a call without a fault; no other thread waits for it. Python enters it faster than a `nullcontext`."""

CallObserver = Callable[[Call], None]


class FaultInjectingSeam(Seam):
    """Runs the fault injector around each call to a port of the simulation, instead of hooks.

    The list `calls` of the base class stays empty. `observers` are called before every call, except a read of the table
    and a call that fails before its effect. `calls_left` is the number of calls that the run may still make.
    """

    def __init__(self, injector: FaultInjector) -> None:
        super().__init__()
        self._injector = injector
        self.calls_left = MAX_CALLS
        self.observers: list[CallObserver] = []

    def around(self, port: str, operation: str, argument: object = None) -> AbstractContextManager[None]:
        """Raise a fault before a call, or return a context that may raise a fault after the call.

        Raises CallLimitExceeded if no calls are left (`calls_left`).
        """
        call, injector = Call(port, operation, argument), self._injector
        self.calls_left -= 1
        if self.calls_left < 0:
            raise CallLimitExceeded(call.name)
        kind = injector.before(call)
        if port != "table" or operation in TABLE_WRITES:
            for observe in self.observers:
                observe(call)
        return _UNDISTURBED if kind is None else _CallContext(injector, kind, call)


@dataclass(frozen=True, slots=True)
class _CallContext:
    """A context manager that raises a fault after the call in its body has taken effect."""

    injector: FaultInjector
    kind: FaultKind
    call: Call

    def __enter__(self) -> None:
        """Do nothing; the call takes effect in the body of the context."""

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self.injector.after(self.kind, self.call)
