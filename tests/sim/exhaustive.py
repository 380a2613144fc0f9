"""Exhaustive exploration: runs small scenarios with every sequence of a few faults or orders.

A side effect is a call to a port that changes something, such as a table write or the replacement of an instance. A
scenario first runs without a fault. It then runs once for each kind of fault at each side effect. Each of these runs is
repeated with a second fault at each later side effect, and so on. The second fault therefore occurs in the state that
results from the first fault. `explore` limits the number of side effects and the number of faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random

from faultbridge.model.enums import RepairAction
from faultbridge.model.errors import Transient
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.samples import SAMPLES
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import EFFECTS, NO_FAULTS, Crash, FaultInjector, FaultKind, FaultProfile, fault_error
from tests.sim.invariants.catalog import check
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal, Kind
from tests.sim.policies import require_approval
from tests.sim.rest import come_to_rest, end_cases
from tests.sim.schedule import Schedule
from tests.sim.scripted_orders import Order, give
from tests.sim.simulated_system import NODE_PREFIXES, REPAIRED, WATCHED, SimulatedSystem

Event = FaultKind | Order
Faults = tuple[tuple[int, Event], ...]
"""Faults and orders by the number of the side effect at which they occur."""

WARM_UP = timedelta(seconds=30)
MAX_SENDS = 4
KINDS: tuple[Event, ...] = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.TRANSIENT, FaultKind.CONFLICT)


@dataclass(slots=True)
class ScriptedInjector(FaultInjector):
    """Injects scripted events: `faults` maps the number of a side effect to the event that occurs there.

    An event is a fault, or an operator's order. A fault makes the call with the side effect fail. An order is carried
    out right before this call by the function `give`, which the caller sets when the simulated system exists.

    Side effects are numbered from 1, starting at the first call named `first_call`. If `first_call` is empty, all side
    effects are numbered. `points` lists the numbered side effects.
    """

    faults: dict[int, Event] = field(default_factory=dict)
    first_call: str = ""
    give: Callable[[Order], None] = lambda _: None
    points: list[str] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        """Count the call if it has a side effect, and carry out the event that is scripted for its number.

        A fault that prevents the effect of the call is raised. A fault that must occur after the effect is returned, so
        that the caller raises this fault after the call. In all other cases, the result is None.
        """
        if not self.enabled or not self.workers or call.name not in EFFECTS:
            return None
        if not self.points and self.first_call and call.name != self.first_call:
            return None
        self.points.append(f"{self.workers[-1]}: {call.name}")
        kind = self.faults.get(len(self.points))
        if kind is None:
            return None
        self.injected += 1
        self.journal.add(Kind.FAULT, f"{self.points[-1]} {kind.value}")
        if isinstance(kind, Order):
            workers, self.workers = self.workers, []
            self.give(kind)
            self.workers = workers
            return None
        if kind is FaultKind.CONFLICT and not call.name.startswith("table."):
            # Only table writes can conflict; for other calls the fourth fault is a lost answer.
            kind = FaultKind.LOST_ANSWER
        if kind in {FaultKind.CRASH_AFTER, FaultKind.LOST_ANSWER}:
            return kind
        raise fault_error(kind, call)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A small scenario: one node, one record from it, and the faults or operator orders that may occur.

    - `sample` is the name of the kind of record in `SAMPLES`.
    - `repaired` states whether Faultbridge repairs the node.
    - `scheduler` gives the cluster an orchestrator.
    - `first_call` is the name of a call, such as `provider.replace`. Faults and orders occur only at the first call
      with this name or later. If `first_call` is empty, they may occur at each side effect.
    - `asks` makes the policy require an operator's approval of a replacement.
    - `kinds` are the kinds of faults, and the operator orders, that may occur.
    """

    name: str
    sample: str
    repaired: bool = False
    scheduler: bool = False
    first_call: str = ""
    asks: bool = False
    kinds: tuple[Event, ...] = KINDS

    def play(self, faults: Faults) -> tuple[ScriptedInjector, list[str]]:
        """Run the scenario with faults or orders; returns the injector and a line of text for each violation.

        Each pair in `faults` has the number of a side effect, and the fault or order that occurs there. The injector
        lists the side effects of the run. The violations are those of invariants, and the cases and incidents that do
        not end.
        """
        made: list[ScriptedInjector] = []

        def scripted(profile: FaultProfile, random: Random, schedule: Schedule, journal: Journal) -> FaultInjector:
            injector = ScriptedInjector(
                profile, random, schedule, journal, faults=dict(faults), first_call=self.first_call
            )
            made.append(injector)
            return injector

        system = SimulatedSystem(0, NO_FAULTS, make_injector=scripted)
        system.build(nodes=int(self.repaired), watched=int(not self.repaired), scheduler=self.scheduler)
        if self.asks:
            require_approval(system, (RepairAction.REPLACE_NODE,), timedelta(hours=1))
        system.pass_time(WARM_UP)
        (injector,) = made
        injector.give = partial(give, system=system)
        injector.enabled = True
        self._send(system)
        system.queue.poll_soon()
        come_to_rest(system, injecting=True)
        injector.enabled = False
        found = [*check(SystemView(system)), *end_cases(system)]
        return injector, [*system.journal.violations, *found]

    def _send(self, system: SimulatedSystem) -> None:
        source, _, make = SAMPLES[self.sample]
        cluster = REPAIRED if self.repaired else WATCHED
        node = f"{NODE_PREFIXES[cluster]}-1"
        for _ in range(MAX_SENDS):
            try:
                if system.workers.send(RawInput(source, cluster, make(0, None), node=node)):
                    return
            except (Crash, Transient):
                continue


WATCHED_FAULT = Scenario("a fault of a watched node", "xid 79")
ESCALATION = Scenario("a fault that needs an operator", "unknown xid", repaired=True)
REPAIR = Scenario("a repair from the replace call on", "xid 79", repaired=True, first_call="provider.replace")
ISOLATION = Scenario(
    "a repair from isolation on", "xid 79", repaired=True, scheduler=True, first_call="orchestrator.cordon"
)
ORDERED_REPAIR = Scenario("a repair with orders", "xid 79", repaired=True, scheduler=True, kinds=(*KINDS, *Order))
APPROVAL = Scenario("an approval with orders", "xid 79", repaired=True, asks=True, kinds=(*KINDS, *Order))
SCENARIOS = {
    scenario.name: scenario for scenario in (WATCHED_FAULT, ESCALATION, REPAIR, ISOLATION, ORDERED_REPAIR, APPROVAL)
}


@dataclass(slots=True)
class Exploration:
    """The result of an exploration: the number of runs by number of faults, and the violations.

    `points` is the largest number of side effects that one run has numbered. `broken` has, for each violation, the
    faults of the run and a line of text.
    """

    runs: Counter[int] = field(default_factory=Counter)
    points: int = 0
    broken: list[tuple[Faults, str]] = field(default_factory=list)


def explore(scenario: Scenario, *, points: int, faults: int, first: int | None = None) -> Exploration:
    """Run a scenario with every sequence of at most `faults` faults at its first `points` side effects.

    `first` divides the work among processes. If it is None, all runs are made. If it is 0, only the run without faults
    is made. Otherwise, the first fault of each run is at the side effect with the number `first`.
    """
    exploration = Exploration()
    todo: list[Faults] = [()] if first is None or first == 0 else _single_faults(scenario, first)
    while todo:
        given = todo.pop()
        injector, broken = scenario.play(given)
        exploration.runs[len(given)] += 1
        exploration.points = max(exploration.points, len(injector.points))
        exploration.broken += [(given, line) for line in broken]
        if len(given) < faults and first != 0:
            reached = min(points, len(injector.points))
            last = given[-1][0] if given else 0
            todo += [(*given, (point, kind)) for point in range(last + 1, reached + 1) for kind in scenario.kinds]
    return exploration


def _single_faults(scenario: Scenario, point: int) -> list[Faults]:
    return [((point, kind),) for kind in scenario.kinds]
