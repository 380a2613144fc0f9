"""Compares policies and baselines on the same hosts, faults and false alarms, over many scenarios.

A scenario is a simulated fleet with one seed and one part of a trace.
"""

from __future__ import annotations

import gc
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import default_policy, version_of
from faultbridge.model.log import logged_from
from faultbridge.model.policy import Policy
from faultbridge.model.storage.codec import load
from tests.lab.baseline_fleet import BaselineFleet
from tests.lab.baselines import EKS, Baseline
from tests.lab.measures import Interval, Measures, interval, measure
from tests.lab.product.product_fleet import ProductFleet
from tests.lab.scenario import Scenario

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
Progress = Callable[[float], None]


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


def run(scenario: Scenario, system: System, progress: Progress = lambda _: None) -> Measures:
    """Run one system on one scenario and return its measures; log lines below ERROR are suppressed."""
    fleet = ProductFleet(scenario, system) if isinstance(system, Policy) else BaselineFleet(scenario, system)
    with logged_from(logging.ERROR), _excluded_from_collection():
        return measure(scenario, fleet.run(progress))


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
    scenarios: Sequence[Scenario], systems: Mapping[str, System], progress: Progress = lambda _: None
) -> tuple[Compared, ...]:
    """Run every system on every scenario, and return the results of each system.

    `progress` is called with the share of the runs that is done.
    """
    found: list[Compared] = []
    total, done = len(scenarios) * len(systems), 0
    for name, system in systems.items():
        results = []
        for scenario in scenarios:
            results.append(run(scenario, system, partial(_report, progress, done, total)))
            done += 1
        found.append(Compared(name, tuple(results)))
    return tuple(found)


def _report(progress: Progress, done: int, total: int, share: float) -> None:
    progress((done + share) / total)


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
