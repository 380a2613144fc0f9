"""The outage of 20 October 2025 in us-east-1, hour by hour, on a cluster whose nodes fail during all of its periods.

Times are hours after the start, at 23:48 PDT. AWS's summary (aws.amazon.com/message/101925) has the periods of DynamoDB
and of EC2 launches. The times of the pollers, of throttled invocations and of STS are assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster import vacancies
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.samples import SAMPLES
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import NO_FAULTS, Crash, FaultInjector, FaultProfile, Outage
from tests.sim.invariants.catalog import check
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal
from tests.sim.rest import come_to_rest
from tests.sim.schedule import Schedule
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

HOUR = timedelta(hours=1)
TABLE = (0.0, 2.6)
POLLERS = (2.6, 4.9)
LAUNCHES = (2.6, 10.8)
INVOCATIONS = (7.3, 14.5)
STS = (8.7, 10.2)
NODES = 14
FAILURES = {0: 0.5, 1: 5.4, 2: 5.8, 3: 6.0, 4: 6.5, 5: 7.0, 6: 9.0, 7: 11.0, 8: 13.0, 9: 15.0}
"""When each failing node reports a fatal fault; the other nodes stay healthy."""

CONCURRENT, MAX_OWED = default_policy().limits.concurrent, timedelta(minutes=15)
MAX_CONTROL_CALLS_A_MINUTE = 8 * CONCURRENT
"""Calls of the control plane in any minute: the questions, probes and calls of the repairs that the policy permits."""

CONTROL_PLANE = ("provider.", "launcher.", "workflow.")


@dataclass(slots=True)
class October:
    """One run of the timeline: what was called, and what each release of an instance found."""

    system: SimulatedSystem
    start: datetime
    tries: list[tuple[datetime, str]]
    owed: list[str] = field(default_factory=list)
    most_vacant: int = 0
    handled: dict[str, list[float]] = field(default_factory=dict)

    def hours(self) -> float:
        return (self.system.clock.now() - self.start) / HOUR

    def is_in(self, span: tuple[float, float]) -> bool:
        return span[0] <= self.hours() < span[1]

    def before_call(self, call: Call) -> None:
        """Note each release in a group that has owed a successor, and how many nodes have no instance."""
        if call.name != "provider.replace":
            return
        now, nodes = self.system.clock.now(), SystemView(self.system).nodes
        vacant = [one for one in nodes if _has_no_instance(one)]
        self.most_vacant = max(self.most_vacant, len(vacant) + 1)
        late = [one.key.node for one in vacant if (vacancies.vacant_since(one) or now) <= now - MAX_OWED]
        if late:
            self.owed.append(f"{self.hours():.1f} h: {', '.join(late)}")

    def throttle(
        self, name: str, spans: tuple[tuple[float, float], ...], run: Callable[..., object]
    ) -> Callable[..., object]:
        """Return a function that is not invoked in these spans, as the event source mapping of a dead service."""

        def invoked(*arguments: object) -> object:
            if any(self.is_in(span) for span in spans):
                raise Transient(f"{name} is not invoked")
            self.handled.setdefault(name, []).append(self.hours())
            return run(*arguments)

        return invoked


def _has_no_instance(state: NodeState) -> bool:
    return state.status is not NodeStatus.REPLACING and vacancies.vacant_since(state) is not None


@dataclass(slots=True)
class CountingInjector(FaultInjector):
    """Records every attempted call of a worker."""

    tries: list[tuple[datetime, str]] = field(default_factory=list)

    def before(self, call: Call) -> None:  # type: ignore[override] # no random fault is drawn
        self.tries.append((self.schedule.clock.now(), call.name))
        FaultInjector.before(self, call)


def run_october() -> October:
    """Run the timeline, and two hours in which everything works again, and then until nothing is left to do."""
    made: list[CountingInjector] = []

    def make(profile: FaultProfile, random: Random, schedule: Schedule, journal: Journal) -> CountingInjector:
        made.append(CountingInjector(profile, random, schedule, journal))
        return made[-1]

    system = SimulatedSystem(0, replace(NO_FAULTS, max_batch=100), make_injector=make)
    system.build(nodes=NODES, watched=0, scheduler=True)
    system.seam.calls_left = 400_000
    made[0].enabled = True
    october = October(system, system.clock.now(), made[0].tries)
    system.seam.observers.append(october.before_call)
    made[0].outages += [
        Outage("table", october.start + TABLE[0] * HOUR, october.start + TABLE[1] * HOUR),
        Outage("provider", october.start + STS[0] * HOUR, october.start + STS[1] * HOUR),
    ]
    system.queue.handler = october.throttle("ingest", (POLLERS, INVOCATIONS), system.queue.handler)  # type: ignore[assignment]
    system.rule.handler = october.throttle("pager", (INVOCATIONS,), system.rule.handler)  # type: ignore[assignment]
    for mapping in system.streams:
        mapping.handler = october.throttle(mapping.name, (INVOCATIONS,), mapping.handler)  # type: ignore[assignment]
    at = lambda hours, run: system.schedule.after(hours * 3600, "timeline", run)  # noqa: E731
    at(LAUNCHES[0], lambda: system.fleet.set_capacity(0))
    at(LAUNCHES[1], lambda: system.fleet.set_capacity(None))
    at(INVOCATIONS[0], lambda: setattr(system, "stopped_until", october.start + INVOCATIONS[1] * HOUR))
    for node, hours in FAILURES.items():
        at(hours, lambda node=node: _report(system, node))
    for _ in range(4 * 17):
        system.pass_time(HOUR / 4)
    come_to_rest(system)
    return october


def _report(system: SimulatedSystem, node: int) -> None:
    """Send a fatal fault as the agent does: again every 20 s until the queue accepts it, and then every ten minutes."""
    source, _, make = SAMPLES["xid 79"]
    instances = {name: one for one, name in system.node_names.items()}
    name = f"node-{node + 1}"
    if not system.fleet.instances[instances[name]].alive:
        return
    try:
        accepted = system.workers.send(RawInput(source, REPAIRED, make(0, None), node=name))
    except (Crash, Exception):  # noqa: BLE001 - after any error the agent sends it again
        accepted = None
    system.schedule.after(600 if accepted else 20, "agent", lambda: _report(system, node))
    system.queue.poll_soon()


@pytest.fixture(scope="module")
def october() -> October:
    return run_october()


def test_nothing_is_lost_and_every_node_serves_again(october: October) -> None:
    assert list(check(SystemView(october.system))) == []
    assert october.system.journal.violations == []
    assert {one.status for one in SystemView(october.system).nodes} == {NodeStatus.HEALTHY}
    assert october.system.ports.queue.messages == []


def test_no_instance_is_released_twice_and_no_healthy_node_at_all(october: October) -> None:
    released = october.system.checks.released
    assert len(released) == len(set(released)) == len(FAILURES)


def test_no_instance_is_released_while_its_group_has_owed_a_successor_for_15_minutes(october: October) -> None:
    assert october.owed == []


def test_no_more_nodes_than_the_limit_have_no_instance(october: October) -> None:
    assert october.most_vacant <= CONCURRENT


def test_the_recovery_calls_the_control_plane_gradually(october: October) -> None:
    minutes = Counter(
        (at - october.start) // timedelta(minutes=1) for at, name in october.tries if name.startswith(CONTROL_PLANE)
    )
    assert max(minutes.values()) <= MAX_CONTROL_CALLS_A_MINUTE


def test_nothing_is_invoked_while_lambda_is_throttled(october: October) -> None:
    assert not [
        one for name in october.handled for one in october.handled[name] if INVOCATIONS[0] <= one < INVOCATIONS[1]
    ]


def test_pages_name_only_nodes_that_failed(october: October) -> None:
    failed = {f"node-{node + 1}" for node in FAILURES}
    named = {node for page in october.system.ports.pager.sent for node in _nodes(str(page))}
    assert named <= failed


def _nodes(text: str) -> set[str]:
    return {f"node-{node + 1}" for node in range(NODES) if f"node-{node + 1} " in f"{text} "}
