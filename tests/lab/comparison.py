"""Compares policies and baselines on the same hosts, faults and false alarms, over many scenarios.

A scenario is a simulated fleet with one seed and one part of a trace.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import default_policy, version_of
from faultbridge.model.log import logged_from
from faultbridge.model.policy import Policy
from faultbridge.model.storage.codec import load
from tests.lab.baseline_fleet import BaselineFleet
from tests.lab.baselines import Baseline
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
GOAL = 0.2
"""The share of the best baseline's lost GPU-hours that a policy should save without more needless evictions."""
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

    def document(self) -> dict[str, object]:
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


def paired_saving(better: Compared, other: Compared) -> Interval:
    """Return the share of the lost GPU-hours of `other` that `better` saves: the mean over the scenarios.

    The result also has the confidence interval. In a scenario in which `other` loses nothing, the saving is -1 if
    `better` loses anything, else 0.
    """
    pairs = zip(better.results, other.results, strict=True)
    return interval([_share_saved(one.lost_gpu_hours, two.lost_gpu_hours) for one, two in pairs])


def _share_saved(lost: float, of: float) -> float:
    return 1 - lost / of if of else -float(lost > 0)


def best_baseline(compared: Iterable[Compared], names: Iterable[str]) -> Compared:
    """Return the result of the baseline in `names` that loses the fewest GPU-hours on average."""
    wanted = set(names)
    found = [one for one in compared if one.name in wanted]
    return min(found, key=lambda one: one.interval("lost_gpu_hours").mean)


def savings_of(
    compared: Sequence[Compared], policies: Iterable[str], baselines: Iterable[str]
) -> dict[str, dict[str, object]]:
    """Return, by policy, the share of the best baseline's lost GPU-hours that the policy saves.

    Each result also states whether the policy meets the goal: its whole confidence interval is at least `GOAL`, and it
    causes on average no more needless evictions than the baseline. A single scenario has no confidence interval, so it
    never meets the goal.
    """
    best = best_baseline(compared, baselines)
    wanted, found = set(policies), {}
    for one in compared:
        if one.name in wanted:
            saved, several = paired_saving(one, best), len(one.results) > 1
            needless = one.interval("needless_evictions").mean <= best.interval("needless_evictions").mean
            found[one.name] = {
                "against": best.name,
                "share": saved.mean,
                "margin": saved.margin if several else None,
                "meets_goal": several and needless and saved.mean - saved.margin >= GOAL,
            }
    return found


def documents_of(
    compared: Sequence[Compared], policies: Iterable[str], baselines: Iterable[str]
) -> list[dict[str, object]]:
    """Return the results as plain data for JSON.

    If `baselines` is not empty, each policy's result also contains its saving against the best baseline. For a
    baseline, this saving is None.
    """
    names = tuple(baselines)
    savings = savings_of(compared, policies, names) if names else {}
    return [{**one.document(), **({"saving": savings.get(one.name)} if names else {})} for one in compared]


def named_policy(text: str | None) -> tuple[str, Policy]:
    """Return the name of a policy for tables, and the policy itself.

    `text` is a policy file; None means the packaged policy. An invalid file raises `InvalidPolicy`.
    """
    if text is None:
        return "faultbridge-default", default_policy()
    document = read_policy(text)
    version = version_of(document)
    return f"faultbridge-{version}", load(Policy, {**document, "version": version})
