"""Simulated runs in parallel on all cores."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from tests.scheduling import IS_XDIST_PROCESS
from tests.sim.exhaustive import SCENARIOS, Exploration, explore
from tests.sim.history import collect_less, run

A = TypeVar("A")
B = TypeVar("B")


def parallel_map(function: Callable[[A], B], items: Iterable[A], chunk: int = 5) -> Iterator[B]:
    """Apply a function to items on all cores; yields the results in order.

    Under xdist it runs in this process, because the test processes already use all cores.
    """
    if IS_XDIST_PROCESS:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=collect_less) as pool:
        yield from pool.map(function, items, chunksize=chunk)


COLLECT_EVERY = 8
"""The garbage of this many seeds, about 10 MB each, is collected at once: a collection takes 5 % of a run's time."""


def violations_of(seed: int) -> list[str]:
    """Return the violations of a seed's run, with the command that repeats it."""
    found = run(seed)
    if seed % COLLECT_EVERY == 0:
        gc.collect()
    return [f"{line}\n    replay: {found.replay}" for line in found.broken]


def explore_part(part: tuple[str, int, int, int]) -> Exploration:
    """Run the orderings with one first fault; `part` is (scenario, points, faults, first point)."""
    name, points, faults, first = part
    return explore(SCENARIOS[name], points=points, faults=faults, first=first)
