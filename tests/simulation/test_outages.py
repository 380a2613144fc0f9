"""An hour without each thing that the product depends on: nothing lost, nothing done twice, no stampede afterwards."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

import pytest

from faultbridge.data.policies import default_policy
from faultbridge.domain.edges import NodeStatus
from faultbridge.ingest.send import RawInput
from faultbridge.simulation.chaos import Chaos, Crash, Outage
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.history import calm_down
from faultbridge.simulation.invariants import check
from faultbridge.simulation.journal import Journal
from faultbridge.simulation.samples import SAMPLES
from faultbridge.simulation.scene import ACTING, Scene
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.view import View
from faultbridge.simulation.weather import CALM, FaultKind, Weather

PORTS = ("table", "bus", "queue", "objects", "workflow", "pager", "provider", "orchestrator", "verifier", "receipts")
NODES, EVERY = 7, 3
FAILING = {(6, 0), (6, 1), (9, 2)}
"""When (in minutes) which nodes fail."""

MAX_CALLS = 100_000
AS_DEPLOYED = replace(CALM, batch=100)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
AT_A_TIME = default_policy().limits.concurrent
RECORDS = NODES * 60 // EVERY
TRIED = ("provider.", "orchestrator.", "verifier.", "workflow.", "pager.")
TRIES_A_MINUTE = 3
AFTERWARDS = {"pager.": 2, "orchestrator.": 2, "workflow.": 4, "bus.": 12}
"""The most calls a minute, for each failing node: a call and its repetition; an entry each of what a minute tells."""

CALLS_A_RECORD = 8
REPAIRS = ("provider.replace", "verifier.start", "orchestrator.drain", "workflow.start")


@dataclass(slots=True)
class Counting(Chaos):
    """Counts every try of a worker's call, also those that an outage takes."""

    tries: list[tuple[datetime, str]] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        self.tries.append((self.schedule.clock.now(), call.name))
        return Chaos.before(self, call)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """An hour without a port and what came of it: every try of a call, and how things stood two hours later."""

    scene: Scene
    tries: list[tuple[datetime, str]]
    start: datetime
    serving: int
    left: int

    @property
    def end(self) -> datetime:
        """When the port answered again."""
        return self.start + HOUR

    def meanwhile(self, *names: str) -> int:
        """How often calls of these names were tried in the hour."""
        return sum(name.startswith(names) and self.start <= at < self.end for at, name in self.tries)

    def busiest(self, *names: str) -> int:
        """The most calls of these names within a minute since the port answered again."""
        minutes = Counter((at - self.end) // MINUTE for at, name in self.tries if name.startswith(names))
        return max((number for minute, number in minutes.items() if minute >= 0), default=0)


class Agents:
    """One agent a node: it keeps what nobody took and sends it again, in order."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.kept: list[deque[RawInput]] = [deque() for _ in range(NODES)]

    def say(self, node: int, what: str) -> None:
        """Send a record, behind those that wait."""
        source, make = SAMPLES[what]
        self.kept[node].append(RawInput(source, ACTING, make(0, None), node=f"node-{node + 1}"))
        if len(self.kept[node]) == 1:
            self._send(node)

    def _send(self, node: int) -> None:
        try:
            while self.kept[node] and self.scene.workers.send(self.kept[node][0]):
                self.kept[node].popleft()
        except (Crash, Exception):  # noqa: BLE001 - whatever it was, it is sent again
            self.scene.schedule.after(20, "agent", lambda: self._send(node))
        self.scene.queue.wake()


def hour_without(port: str) -> Aftermath:
    """Let all nodes talk and three of them fail, while a port does not answer for an hour."""
    made: list[Counting] = []

    def counting(weather: Weather, random: Random, schedule: Schedule, journal: Journal) -> Counting:
        made.append(Counting(weather, random, schedule, journal))
        return made[-1]

    scene = Scene(0, AS_DEPLOYED, chaos=counting)
    scene.build(nodes=NODES, watched=0, scheduler=True)
    scene.seam.calls_left = MAX_CALLS
    made[0].calm = False
    start = scene.clock.now()
    made[0].outages.append(Outage(port, start, start + HOUR))
    agents = Agents(scene)
    for minute in range(0, 60, EVERY):
        for node in range(NODES):
            agents.say(
                node, "xid 79" if (minute, node) in FAILING else "garbage" if node == NODES - 1 else "healthy watches"
            )
        scene.pass_time(MINUTE * EVERY)
    scene.pass_time(HOUR * 2)
    serving = sum(node.status is NodeStatus.HEALTHY for node in View(scene).nodes)
    left = len(scene.ports.queue.messages)
    calm_down(scene)
    return Aftermath(scene, made[0].tries, start, serving, left)


@pytest.fixture(scope="module", params=PORTS)
def hour(request: pytest.FixtureRequest) -> Aftermath:
    return hour_without(request.param)


def test_nothing_is_lost(hour: Aftermath) -> None:
    assert list(check(View(hour.scene))) == []
    assert hour.scene.journal.problems == []
    assert (hour.serving, hour.left) == (NODES, 0), "two hours after the outage all is as it was"


def test_nothing_is_done_twice(hour: Aftermath) -> None:
    assert len(hour.scene.watch.released) == len(set(hour.scene.watch.released)) == len(FAILING)
    assert sum(not one.alive for one in hour.scene.fleet.instances.values()) == len(FAILING)


def test_what_waited_is_worked_off_without_a_stampede(hour: Aftermath) -> None:
    for repair in REPAIRS:
        assert hour.busiest(repair) <= AT_A_TIME, repair
    for port, each in AFTERWARDS.items():
        assert hour.busiest(port) <= each * len(FAILING), port
    assert hour.busiest("table.") <= CALLS_A_RECORD * RECORDS


@pytest.mark.parametrize("port", TRIED)
def test_what_is_away_is_tried_with_growing_pauses(hour: Aftermath, port: str) -> None:
    assert hour.meanwhile(port) <= TRIES_A_MINUTE * 60 * len(FAILING)
