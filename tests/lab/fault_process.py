"""Fault process: draws the faults of any number of hosts from the histories of a trace's servers.

Whole histories are resampled: each host gets the history of one server. Repeated faults of a server and the gaps
between them are therefore preserved. Hosts are grouped in pods of as many hosts as the trace has servers, and a pod
uses each history at most once per period of the trace's length. In a period, all hosts of a pod share one random shift
in time, so faults at the same instant stay together. Different pods are independent. Repair times vary by a random
factor with mean 1.

A run with more hosts than the trace has servers, or with a longer time than the trace covers, is an extrapolation. No
cause affects several pods, although a real cause might. After each period of the trace's length, the histories are
assigned to the hosts anew. A seed determines the shifts, the assignment and the repair times, not the histories.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Protocol

from tests.lab.trace import DAY, HOUR, Trace, TraceFault

REPAIR_SPREAD = 0.1
"""The standard deviation of the logarithm of the factor by which a repair time varies."""


@dataclass(frozen=True, slots=True)
class HostFault:
    """One fault of one host: its start and the duration of its repair, in seconds.

    `kind` is the name of the fault in the trace.
    """

    host: int
    start: float
    repair: float
    kind: str


@dataclass(frozen=True, slots=True)
class FaultProcess:
    """Generates faults of hosts. The faults resemble those of a trace; equal arguments give equal faults."""

    trace: Trace

    def faults(self, hosts: int, seconds: float, seed: int) -> tuple[HostFault, ...]:
        """Return the faults of hosts 0 to `hosts - 1` in a time of `seconds`, in the order of their starts."""
        random = Random(f"faults-{seed}")
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


TAILS = (0.5, 0.9, 0.99)


class _Fault(Protocol):
    @property
    def start(self) -> float: ...

    @property
    def repair(self) -> float: ...


def statistics(names: Sequence[object], faults: Sequence[_Fault], hosts: int, seconds: float) -> dict[str, float]:
    """Return named statistics of faults: rate, repair times, gaps between starts, spread over hosts.

    `faults` is ordered by start. `names` contains the host of each fault, in the same order.
    """
    counts = Counter(names)
    repairs = sorted(fault.repair / HOUR for fault in faults)
    gaps = sorted((later.start - earlier.start) / HOUR for earlier, later in pairwise(faults))
    most = sum(count for _, count in counts.most_common(max(1, hosts // 10)))
    repeated = sum(count for count in counts.values() if count > 1)
    return {
        "faults_per_1000_node_days": 1000 * len(faults) * DAY / (hosts * seconds),
        "repair_hours_mean": fmean(repairs),
        **{f"repair_hours_p{share * 100:g}": quantile(repairs, share) for share in TAILS},
        "gap_hours_mean": fmean(gaps),
        "gap_hours_p90": quantile(gaps, 0.9),
        "share_on_repeat_nodes": repeated / len(faults),
        "share_on_top_tenth": most / len(faults),
    }


def compare(trace: Trace, hosts: int, seeds: Sequence[int]) -> dict[str, Mapping[str, float]]:
    """Compare the statistics of generated faults with those of their trace.

    Returns for each statistic the value of the trace, the generated value, and the ratio of the generated value to that
    of the trace. For each seed, the faults of `hosts` hosts are generated for the duration of the trace. The generated
    value is the mean over the seeds.
    """
    ours = statistics([fault.server for fault in trace.faults], trace.faults, trace.servers, trace.seconds)
    generated = []
    for seed in seeds:
        faults = FaultProcess(trace).faults(hosts, trace.seconds, seed)
        generated.append(statistics([fault.host for fault in faults], faults, hosts, trace.seconds))
    means = {name: fmean(one[name] for one in generated) for name in ours}
    return {name: {"trace": ours[name], "generated": means[name], "ratio": means[name] / ours[name]} for name in ours}


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values for a share from 0 to 1, without interpolation."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
