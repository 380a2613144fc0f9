"""One-hour outages of each port: nothing is lost or done twice, the backlog is processed gradually."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.enums import NodeStatus
from faultbridge.model.values import replace
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.samples import SAMPLES
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import NO_FAULTS, Crash, FaultInjector, FaultKind, FaultProfile, Outage
from tests.sim.invariants.catalog import check
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal
from tests.sim.rest import come_to_rest
from tests.sim.schedule import Schedule
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

PORTS = ("table", "bus", "queue", "objects", "workflow", "pager", "provider", "orchestrator", "verifier", "receipts")
NODES, EVERY = 7, 3
FAILING = {(6, 0), (6, 1), (9, 2)}
"""The failures: (minute, node)."""

MAX_CALLS = 100_000
DEPLOYED = replace(NO_FAULTS, max_batch=100)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MAX_CONCURRENT_REPAIRS = default_policy().limits.concurrent
RECORDS = NODES * 60 // EVERY
RETRIED_PORTS = ("provider.", "orchestrator.", "verifier.", "workflow.", "pager.")
MAX_TRIES_PER_MINUTE = 3
MAX_CALLS_PER_MINUTE = {"pager.": 2, "orchestrator.": 2, "workflow.": 4, "bus.": 12}
"""The maximum calls a minute for each failing node: one call and its retry, or one call for each entry of a minute."""

MAX_TABLE_CALLS_PER_RECORD = 8
REPAIR_CALLS = ("provider.replace", "verifier.start", "orchestrator.drain", "workflow.start")


@dataclass(slots=True)
class CountingInjector(FaultInjector):
    """Records every attempted call of a worker, including those that an outage prevents."""

    tries: list[tuple[datetime, str]] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        self.tries.append((self.schedule.clock.now(), call.name))
        return FaultInjector.before(self, call)


@dataclass(frozen=True, slots=True)
class OutageResult:
    """The result of a one-hour outage: attempted calls, and serving nodes and messages two hours later."""

    system: SimulatedSystem
    tries: list[tuple[datetime, str]]
    start: datetime
    serving: int
    left: int

    @property
    def end(self) -> datetime:
        """The time at which the port answered again."""
        return self.start + HOUR

    def calls_during_outage(self, *names: str) -> int:
        """Return how many calls with these names were attempted during the outage."""
        return sum(name.startswith(names) and self.start <= at < self.end for at, name in self.tries)

    def max_calls_per_minute(self, *names: str) -> int:
        """Return the maximum number of calls with these names in a minute after the outage."""
        minutes = Counter((at - self.end) // MINUTE for at, name in self.tries if name.startswith(names))
        return max((number for minute, number in minutes.items() if minute >= 0), default=0)


class Agents:
    """One agent per node: it buffers records that were not accepted and sends them again in order."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self.buffers: list[deque[RawInput]] = [deque() for _ in range(NODES)]

    def report(self, node: int, sample: str) -> None:
        """Send a record after the buffered ones."""
        source, _, make = SAMPLES[sample]
        self.buffers[node].append(RawInput(source, REPAIRED, make(0, None), node=f"node-{node + 1}"))
        if len(self.buffers[node]) == 1:
            self._send(node)

    def _send(self, node: int) -> None:
        try:
            while self.buffers[node] and self.system.workers.send(self.buffers[node][0]):
                self.buffers[node].popleft()
        except (Crash, Exception):  # noqa: BLE001 - after any error the agent sends it again
            self.system.schedule.after(20, "agent", lambda: self._send(node))
        self.system.queue.poll_soon()


def run_outage(port: str) -> OutageResult:
    """Run all nodes, three of which fail, while a port does not answer for an outage."""
    made: list[CountingInjector] = []

    def make_injector(profile: FaultProfile, random: Random, schedule: Schedule, journal: Journal) -> CountingInjector:
        made.append(CountingInjector(profile, random, schedule, journal))
        return made[-1]

    system = SimulatedSystem(0, DEPLOYED, make_injector=make_injector)
    system.build(nodes=NODES, watched=0, scheduler=True)
    system.seam.calls_left = MAX_CALLS
    made[0].enabled = True
    start = system.clock.now()
    made[0].outages.append(Outage(port, start, start + HOUR))
    agents = Agents(system)
    for minute in range(0, 60, EVERY):
        for node in range(NODES):
            agents.report(
                node, "xid 79" if (minute, node) in FAILING else "invalid XML" if node == NODES - 1 else "DCGM: healthy"
            )
        system.pass_time(MINUTE * EVERY)
    system.pass_time(HOUR * 2)
    serving = sum(node.status is NodeStatus.HEALTHY for node in SystemView(system).nodes)
    left = len(system.ports.queue.messages)
    come_to_rest(system)
    return OutageResult(system, made[0].tries, start, serving, left)


@pytest.fixture(scope="module", params=PORTS)
def outage(request: pytest.FixtureRequest) -> OutageResult:
    return run_outage(request.param)


def test_nothing_is_lost(outage: OutageResult) -> None:
    assert list(check(SystemView(outage.system))) == []
    assert outage.system.journal.violations == []
    assert (outage.serving, outage.left) == (NODES, 0), (
        "two hours after the outage every node serves and the queue is empty"
    )


def test_no_instance_is_replaced_twice(outage: OutageResult) -> None:
    assert len(outage.system.checks.released) == len(set(outage.system.checks.released)) == len(FAILING)
    assert sum(not one.alive for one in outage.system.fleet.instances.values()) == len(FAILING)


def test_the_backlog_is_processed_gradually(outage: OutageResult) -> None:
    for repair in REPAIR_CALLS:
        assert outage.max_calls_per_minute(repair) <= MAX_CONCURRENT_REPAIRS, repair
    for port, limit in MAX_CALLS_PER_MINUTE.items():
        assert outage.max_calls_per_minute(port) <= limit * len(FAILING), port
    assert outage.max_calls_per_minute("table.") <= MAX_TABLE_CALLS_PER_RECORD * RECORDS


def test_a_failing_port_is_retried_with_backoff(outage: OutageResult) -> None:
    for port in RETRIED_PORTS:
        assert outage.calls_during_outage(port) <= MAX_TRIES_PER_MINUTE * 60 * len(FAILING), port
