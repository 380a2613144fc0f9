"""Measures runs, and compares policies and baselines on the same hosts, faults and false alarms.

A scenario is a simulated fleet with one seed and one part of a trace.
"""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import default_policy, version_of
from faultbridge.model.log import logged_from
from faultbridge.model.policy import Policy
from faultbridge.model.storage.codec import load
from tests.lab.baselines import EKS, Baseline, BaselineFleet
from tests.lab.jobs import CAUSES, GPUS, Jobs
from tests.lab.product.product_fleet import ProductFleet
from tests.lab.scenario import Scenario
from tests.lab.trace import DAY, HOUR

MEASURED = (
    "lost_gpu_hours",
    "lost_by_jobs",
    "goodput",
    "interruptions",
    "needless_evictions",
    "replacements",
    "needless_replacements",
    "pages_a_week",
)
PACKAGED = "faultbridge (packaged)"
System = Policy | Baseline


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


@dataclass(frozen=True, slots=True)
class Compared:
    """The results of one system (a policy or a baseline), in the order of the scenarios."""

    name: str
    results: tuple[Measures, ...]

    def interval(self, name: str) -> Interval:
        """Return the mean of a measure over the scenarios, with its confidence interval."""
        return interval([float(getattr(one, name)) for one in self.results])

    def document(self) -> dict[str, Any]:
        """Return means, margins of confidence intervals, losses by cause and waits by reason, for JSON."""
        found = {name: self.interval(name) for name in MEASURED}
        causes = self.results[0].lost_by_cause
        number = len(self.results)
        reasons = sorted({reason for one in self.results for reason in one.waited_hours})
        return {
            "system": self.name,
            "runs": number,
            **{name: one.mean for name, one in found.items()},
            "margins": {name: one.margin for name, one in found.items() if number > 1},
            "lost_by_cause": {
                cause: sum(one.lost_by_cause[cause] for one in self.results) / number for cause in causes
            },
            "waited_hours": {
                reason: sum(one.waited_hours.get(reason, 0.0) for one in self.results) / number for reason in reasons
            },
        }


def run(scenario: Scenario, system: System) -> Measures:
    """Run one system on one scenario and return its measures; log lines below ERROR are suppressed."""
    fleet = ProductFleet(scenario, system) if isinstance(system, Policy) else BaselineFleet(scenario, system)
    with logged_from(logging.ERROR), _excluded_from_collection():
        return measure(scenario, fleet.run())


@contextmanager
def _excluded_from_collection() -> Iterator[None]:
    """Exclude the existing objects from garbage collection while a scenario runs, to save time.

    If the process has already excluded objects, nothing changes.
    """
    excluded_before = gc.get_freeze_count() > 0
    if not excluded_before:
        gc.freeze()
    try:
        yield
    finally:
        if not excluded_before:
            gc.unfreeze()


def compare_systems(
    scenarios: Sequence[Scenario], systems: Mapping[str, System], progress: Callable[[str], None] = lambda _: None
) -> tuple[Compared, ...]:
    """Run every system on every scenario, and return their results; `progress` gets a line for each system."""
    found: list[Compared] = []
    for name, system in systems.items():
        found.append(Compared(name, tuple(run(scenario, system) for scenario in scenarios)))
        progress(f"{name}: {len(found)} of {len(systems)} systems are done")
    return tuple(found)


def ratio(one: Compared, other: Compared, name: str) -> Interval:
    """Return the sum of a measure of one system divided by that of another, with its 95 % confidence interval.

    Both have the same scenarios, so the interval is that of the mean difference of the pairs (delta method).
    """
    mine, theirs = ([float(getattr(run, name)) for run in system.results] for system in (one, other))
    total = sum(theirs)
    if not total:
        return Interval(1.0 if not sum(mine) else math.inf, math.inf)
    share = sum(mine) / total
    spread = interval([a - share * b for a, b in zip(mine, theirs, strict=True)]).margin
    return Interval(share, spread * len(theirs) / total)


def documents_of(compared: Sequence[Compared], precursors: float = 0.0) -> list[dict[str, Any]]:
    """Return the results as plain data for JSON, with each system's losses as ratios to those of EKS auto repair."""
    eks = next((one for one in compared if one.name == EKS), None)
    found = []
    for one in compared:
        ratios = {name: ratio(one, eks, name) for name in ("lost_gpu_hours", "lost_by_jobs")} if eks else {}
        margins = {name: of.margin if len(one.results) > 1 else None for name, of in ratios.items()}
        against = {name: {"ratio": of.mean, "margin": margins[name]} for name, of in ratios.items()}
        found.append({**one.document(), "precursors": precursors, "against_eks": against})
    return found


def named_policy(text: str | None, name: str) -> tuple[str, Policy]:
    """Return the name of a policy for tables, and the policy itself.

    `text` is a policy file; None means the packaged policy. An invalid file raises `InvalidPolicy`.
    """
    if text is None:
        return name, default_policy()
    document = read_policy(text)
    return name, load(Policy, {**document, "version": version_of(document)})
