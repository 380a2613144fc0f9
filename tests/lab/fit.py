"""Fit: statistics that show how well a generated fault process matches its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Protocol

from tests.lab.fault_process import FaultProcess
from tests.lab.trace import DAY, HOUR, Trace

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
