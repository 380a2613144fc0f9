"""Scenario: everything about a simulated fleet that does not depend on the policy.

All durations are in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from tests.lab.fault_process import FaultProcess, HostFault
from tests.lab.jobs import MINUTE, JobMix
from tests.lab.trace import DAY, HOUR, Trace

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""The default time at which a simulated fleet starts."""


@dataclass(frozen=True, slots=True)
class Physics:
    """Assumptions about hosts that no trace states. Durations are in seconds.

    - `soft_repair`: a reboot fixes a fault whose repair in the trace took at most this time. A reset of the GPUs fixes
      such a fault only if it is a fault of a GPU. A restart that does not fix a fault hides it for a time that is drawn
      from the trace. Only a repair of the host fixes a fault with a longer repair time; such a repair takes this longer
      time.
    - `detection`: the probability that a verification detects a hidden fault.
    - `false_alarms`: the number of false alarms per 1,000 node-days. Each lasts from 10 seconds to `longest_alarm`
      (log-uniform).
    - `restart`, `verification`, `launch`: the duration of a restart, of a verification, and of the launch of an
      instance.
    - `inspection`: the shortest time for which a released host is away, even if the host has no fault.
    - `operator`: the shortest time that an operator takes to repair an escalated node.
    - `precursors`: the share of the faults that show a precursor before they begin: from `shortest_lead` to
      `longest_lead` before (log-uniform). The host already has the fault then, hidden.
    """

    soft_repair: float = HOUR
    detection: float = 0.9
    false_alarms: float = 4.0
    longest_alarm: float = 30 * MINUTE
    restart: float = 6 * MINUTE
    verification: float = 10 * MINUTE
    launch: float = 5 * MINUTE
    inspection: float = 4 * HOUR
    operator: float = 4 * HOUR
    precursors: float = 0.0
    shortest_lead: float = 10 * MINUTE
    longest_lead: float = DAY


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """A fault that is reported for a healthy node and ends by itself.

    `node` is the number of the node. `kind` names the monitor that reports the fault.
    """

    node: int
    start: float
    length: float
    kind: str


ALARM_KINDS = ("alarm: heartbeat", "alarm: link", "alarm: not ready")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fleet of `nodes` nodes with a pool of `pool` hosts, for a time of `seconds`.

    Two scenarios with equal fields have the same faults and false alarms.
    """

    trace: Trace
    nodes: int
    pool: int
    seconds: float
    seed: int
    physics: Physics = Physics()
    mix: JobMix = field(default_factory=JobMix)

    @property
    def hosts(self) -> int:
        """Return the number of all hosts; at the start, hosts 0 to `nodes - 1` back the nodes."""
        return self.nodes + self.pool

    def faults(self) -> tuple[HostFault, ...]:
        """Return the faults of all hosts in the order of their starts."""
        return FaultProcess(self.trace).faults(self.hosts, self.seconds, self.seed)

    def precursors(self) -> Iterator[tuple[float, HostFault]]:
        """Yield the time of each precursor, and its fault; a greater share adds precursors and changes none."""
        low, high = math.log(self.physics.shortest_lead), math.log(self.physics.longest_lead)
        for fault in self.faults():
            random = Random(f"precursor-{self.seed}-{fault.host}-{fault.start:.0f}")
            if random.random() < self.physics.precursors:
                yield max(0.0, fault.start - math.exp(random.uniform(low, high))), fault

    def false_alarms(self) -> Iterator[FalseAlarm]:
        """Yield the false alarms of all nodes in the order of their starts; they form a Poisson process."""
        random = Random(f"alarms-{self.seed}")
        rate = self.physics.false_alarms * self.nodes / (1000 * DAY)
        at = random.expovariate(rate) if rate > 0 else math.inf
        while at < self.seconds:
            length = math.exp(random.uniform(math.log(10), math.log(self.physics.longest_alarm)))
            yield FalseAlarm(random.randrange(self.nodes), at, length, random.choice(ALARM_KINDS))
            at += random.expovariate(rate)
