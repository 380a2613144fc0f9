"""Checks that may detect a mutant. pytest provides the tests; this module adds the simulated runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from faultbridge.simulation.exhaustive import ESCALATION, ISOLATION, REPAIR, WATCHED_FAULT, Scenario, explore
from faultbridge.simulation.history import run
from tests.simulation.mutants.swap import Place, forget_results

SEEDS = range(30)
POINTS = 25
SMALL_SCENARIOS = (WATCHED_FAULT, ESCALATION, REPAIR, ISOLATION)


@dataclass(frozen=True, slots=True)
class MutantCheck:
    """A check that returns the failure it finds, or None.

    `covers` are the functions that it runs, `cost` is its processor time in seconds.
    """

    name: str
    run: Callable[[], str | None]
    covers: frozenset[Place] = frozenset()
    cost: float = 0.0


def simulated_runs() -> Iterator[MutantCheck]:
    """Yield a check for each seed, and one for all single faults of each small scenario."""
    yield from seed_runs(SEEDS)
    for scenario in SMALL_SCENARIOS:
        yield MutantCheck(f"one fault: {scenario.name}", partial(_run_single_faults, scenario))


def seed_runs(seeds: Iterable[int]) -> Iterator[MutantCheck]:
    """Yield a check for each seed."""
    return (MutantCheck(f"seed {seed}", partial(_run_seed, seed)) for seed in seeds)


def measure(check: MutantCheck, covered: set[Place]) -> tuple[MutantCheck, str | None]:
    """Measure coverage and cost of a check on the unchanged program; also returns its failure, if any."""
    forget_results()
    covered.clear()
    start = time.process_time()
    failure = check.run()
    return MutantCheck(check.name, check.run, frozenset(covered), time.process_time() - start), failure


def _run_seed(seed: int) -> str | None:
    broken = run(seed).broken
    return f"seed {seed}: {broken[0]}" if broken else None


def _run_single_faults(scenario: Scenario) -> str | None:
    broken = explore(scenario, points=POINTS, faults=1).broken
    return f"{scenario.name}, {broken[0]}" if broken else None
