"""Measures of one run: lost GPU-hours by cause, goodput, ETTR, and counts of actions, pages and waits.

ETTR is the effective training time ratio.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from tests.lab.fleet_log import FleetLog
from tests.lab.job_mix import GPUS, JobLosses, JobMix
from tests.lab.scenario import Scenario
from tests.lab.trace import DAY, HOUR

CAUSES = ("node_down", "rollback", "false_alarm", "restart", "waiting_for_nodes")
STUDENT_975 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
               2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05)  # fmt: skip
"""The 97.5 % quantiles of Student's t-distribution with 1 to 29 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The result of one run; all losses are in GPU-hours.

    The values of `lost_by_cause` add up to `lost_gpu_hours`.
    """

    lost_gpu_hours: float
    lost_by_cause: dict[str, float]
    goodput: float
    ettr: float
    interruptions: float
    evictions: float
    needless_evictions: float
    replacements: float
    needless_replacements: float
    pages_a_week: float
    waited_hours: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the measures by name as plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def measure(scenario: Scenario, log: FleetLog, mix: JobMix | None = None) -> Measures:
    """Return the measures of a run, from the log of its fleet; `mix` are the jobs (None: the default mix).

    Goodput is the share of the fleet's GPU-hours that is not lost. ETTR (effective training time ratio) is the share of
    the jobs' GPU-hours that is not lost; the hours of the failed nodes themselves (`node_down`) do not count as lost.
    """
    losses = JobLosses(scenario.nodes, mix or JobMix())
    losses.follow(log.outages, scenario.seconds)
    lost = {cause: losses.lost.get(cause, 0.0) for cause in CAUSES}
    total, hours = sum(lost.values()), scenario.seconds / HOUR
    of_jobs = total - lost["node_down"]
    counts = log.counts
    return Measures(
        total,
        lost,
        1 - total / (scenario.nodes * GPUS * hours),
        1 - of_jobs / (losses.job_nodes * GPUS * hours),
        losses.counts["interruptions"],
        counts["evictions"],
        counts["needless_evictions"],
        counts["replacements"],
        counts["needless_replacements"],
        counts["pages"] * 7 * DAY / scenario.seconds,
        dict(log.waited),
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % confidence interval: `mean` plus or minus `margin`."""

    mean: float
    margin: float


def interval(values: list[float]) -> Interval:
    """Return the mean of one or more values with its 95 % confidence interval (infinite for one value)."""
    if len(values) < 2:
        return Interval(values[0], float("inf"))
    freedom = len(values) - 1
    factor = STUDENT_975[freedom - 1] if freedom <= len(STUDENT_975) else 1.96
    return Interval(fmean(values), factor * stdev(values) / len(values) ** 0.5)
