"""Every ordering of up to three faults in a small world: not drawn, but all of them.

A world is played once without a fault, then with every fault at every side-effect point, then with every second fault
at every later point of what that became, and so on: a fault after a fault meets the world that the first one left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from faultbridge.errors import Transient
from faultbridge.ingest.send import RawInput
from faultbridge.simulation.chaos import EFFECTS, Chaos, Crash, failure
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.history import calm_down
from faultbridge.simulation.invariants import check
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.samples import SAMPLES
from faultbridge.simulation.scene import ACTING, WATCHED, Scene
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.view import View
from faultbridge.simulation.weather import CALM, FaultKind, Weather

Faults = tuple[tuple[int, FaultKind], ...]
WARM_UP = timedelta(seconds=30)
MAX_SENDS = 4
KINDS = (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.TRANSIENT, FaultKind.CONFLICT)


@dataclass(slots=True)
class Script(Chaos):
    """Breaks the side-effect points that it is told to, counted from the one named `begin` (from the first if none)."""

    faults: dict[int, FaultKind] = field(default_factory=dict)
    begin: str = ""
    points: list[str] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        """Count a side-effect point, and break it if its turn has come."""
        if self.calm or not self._working or call.name not in EFFECTS:
            return None
        if not self.points and self.begin and call.name != self.begin:
            return None
        self.points.append(f"{self._working[-1]}: {call.name}")
        kind = self.faults.get(len(self.points))
        if kind is None:
            return None
        self.injected += 1
        self.journal.note(Kind.FAULT, f"{self.points[-1]} {kind.value}")
        if kind is FaultKind.CONFLICT and not call.name.startswith("table."):
            # Only the table has conflicts; elsewhere the fourth fault is an answer that is lost on its way.
            kind = FaultKind.LOST_ANSWER
        if kind in {FaultKind.CRASH_AFTER, FaultKind.LOST_ANSWER}:
            return kind
        raise failure(kind, call)


@dataclass(frozen=True, slots=True)
class World:
    """A small world: one node, one record, and how far it is repaired; `begin` is where counting begins."""

    name: str
    sample: str
    acting: bool = False
    scheduler: bool = False
    begin: str = ""

    def play(self, faults: Faults) -> tuple[Script, list[str]]:
        """Let the record come in and everything that follows from it; returns the points met and what broke."""
        scripts: list[Script] = []

        def scripted(weather: Weather, random: Random, schedule: Schedule, journal: Journal) -> Chaos:
            scripts.append(Script(weather, random, schedule, journal, faults=dict(faults), begin=self.begin))
            return scripts[-1]

        scene = Scene(0, CALM, chaos=scripted)
        scene.build(nodes=int(self.acting), watched=int(not self.acting), scheduler=self.scheduler)
        scene.pass_time(WARM_UP)
        (script,) = scripts
        script.calm = False
        self._send(scene)
        scene.queue.wake()
        calm_down(scene, injecting=True)
        return script, [*scene.journal.problems, *check(View(scene))]

    def _send(self, scene: Scene) -> None:
        source, make = SAMPLES[self.sample]
        cluster, node = (ACTING, "node-1") if self.acting else (WATCHED, "seat-1")
        for _ in range(MAX_SENDS):
            try:
                if scene.workers.send(RawInput(source, cluster, make(0, None), node=node)):
                    return
            except (Crash, Transient):
                continue


SMALL = World("a fault of a watched node", "xid 79")
PERSON = World("a fault that wants a person", "unknown xid", acting=True)
REPAIR = World("from the intent on", "xid 79", acting=True, begin="provider.replace")
ADMISSION = World("from isolation on", "xid 79", acting=True, scheduler=True, begin="orchestrator.cordon")
WORLDS = {world.name: world for world in (SMALL, PERSON, REPAIR, ADMISSION)}


@dataclass(slots=True)
class Explored:
    """How many worlds were played with how many faults, and those that broke something."""

    runs: Counter[int] = field(default_factory=Counter)
    points: int = 0
    broken: list[tuple[Faults, str]] = field(default_factory=list)


def explore(world: World, *, points: int, faults: int, first: int | None = None) -> Explored:
    """Play all orderings of up to so many faults over the first so many points.

    `first` keeps to those whose first fault is at this point (0: to the one without any), so that work can be shared.
    """
    explored = Explored()
    todo: list[Faults] = [()] if first is None or first == 0 else _alone(first)
    while todo:
        given = todo.pop()
        script, broken = world.play(given)
        explored.runs[len(given)] += 1
        explored.points = max(explored.points, len(script.points))
        explored.broken += [(given, line) for line in broken]
        if len(given) < faults and first != 0:
            met = min(points, len(script.points))
            last = given[-1][0] if given else 0
            todo += [(*given, (point, kind)) for point in range(last + 1, met + 1) for kind in KINDS]
    return explored


def _alone(point: int) -> list[Faults]:
    return [((point, kind),) for kind in KINDS]
