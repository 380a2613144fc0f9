"""Measures of one run: lost GPU-hours by cause, goodput, and counts of actions, pages and waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, stdev

from tests.lab.jobs import CAUSES, GPUS, Jobs
from tests.lab.scenario import Scenario
from tests.lab.trace import DAY, HOUR

STUDENT_975 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11,
               2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05)  # fmt: skip
"""The 97.5 % quantiles of Student's t-distribution with 1 to 29 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The result of one run; all losses are in GPU-hours.

    The values of `lost_by_cause` add up to `lost_gpu_hours`; without the hours of nodes that no job could use
    (`node_down`), they add up to `lost_by_jobs`.
    """

    lost_gpu_hours: float
    lost_by_jobs: float
    lost_by_cause: dict[str, float]
    goodput: float
    interruptions: float
    needless_evictions: float
    replacements: float
    needless_replacements: float
    pages_a_week: float
    waited_hours: dict[str, float] = field(default_factory=dict)


def measure(scenario: Scenario, jobs: Jobs) -> Measures:
    """Return the measures of a run; goodput is the share of the fleet's GPU-hours that is not lost."""
    lost, counts = {cause: jobs.lost.get(cause, 0.0) for cause in CAUSES}, jobs.counts
    total = sum(lost.values())
    return Measures(
        total,
        total - lost["node_down"],
        lost,
        1 - total / (scenario.nodes * GPUS * scenario.seconds / HOUR),
        counts["interruptions"],
        counts["needless_evictions"],
        counts["replacements"],
        counts["needless_replacements"],
        counts["pages"] * 7 * DAY / scenario.seconds,
        dict(jobs.waited),
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
