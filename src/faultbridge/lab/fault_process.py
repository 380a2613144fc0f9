"""Fault process: faults of any number of hosts, drawn from the histories of a trace's servers.

A resampling of whole histories. Each host gets the history of one server, so repeat offenders and the gaps between the
faults of one server are kept. Hosts are grouped in pods of as many hosts as the trace has servers, and a pod uses each
history at most once. The hosts of a pod share one random shift of the clock, so faults at the same instant stay
together; pods are independent. Repair times vary by a random factor with mean 1. More hosts than the trace has
servers, and more time than it covers, are an extrapolation: pods share no cause, and in each period a host gets
another history. Seeds differ in shifts, assignment and repair times, not in the histories themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from faultbridge.lab.trace import Trace, TraceFault

REPAIR_SPREAD = 0.1
"""The standard deviation of the logarithm of the factor by which a repair time varies."""


@dataclass(frozen=True, slots=True)
class HostFault:
    """One fault of one host: its start and the repair time in seconds, and what the trace calls it."""

    host: int
    start: float
    repair: float
    kind: str


@dataclass(frozen=True, slots=True)
class FaultProcess:
    """Generates the faults of hosts like those of a trace; the same seed gives the same faults."""

    trace: Trace

    def faults(self, hosts: int, seconds: float, seed: int) -> tuple[HostFault, ...]:
        """Return the faults of hosts 0 to `hosts - 1` within a period, by start."""
        random = Random(f"faults-{seed}")  # noqa: S311 - a reproducible draw, not a secret
        histories = self.trace.by_server()
        found: list[HostFault] = []
        for first in range(0, hosts, self.trace.servers):
            pod = range(first, min(first + self.trace.servers, hosts))
            for cycle in range(math.ceil(seconds / self.trace.seconds)):
                shift = random.uniform(0, self.trace.seconds)
                begin = cycle * self.trace.seconds
                drawn = random.sample(histories, len(pod))
                for host, history in zip(pod, drawn, strict=True):
                    found += self._history(host, history, shift, begin, random)
        inside = (fault for fault in found if fault.start < seconds)
        return tuple(sorted(inside, key=lambda fault: (fault.start, fault.host)))

    def _history(
        self, host: int, history: tuple[TraceFault, ...], shift: float, begin: float, random: Random
    ) -> Iterator[HostFault]:
        for fault in history:
            factor = math.exp(random.gauss(-(REPAIR_SPREAD**2) / 2, REPAIR_SPREAD))
            start = begin + (fault.start + shift) % self.trace.seconds
            yield HostFault(host, start, fault.repair * factor, fault.kind)
