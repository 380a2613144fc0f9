"""Many histories at once, on as many cores as there are."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from faultbridge.simulation.exhaustive import WORLDS, Explored, explore
from faultbridge.simulation.history import run

A = TypeVar("A")
B = TypeVar("B")


def spread(do: Callable[[A], B], over: Iterable[A], chunk: int = 5) -> Iterator[B]:
    """Do it for each on all cores; results come in the order of what was given.

    Where tests run in several processes already, these are what keeps the cores busy.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        yield from map(do, over)
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_collect_less) as pool:
        yield from pool.map(do, over, chunksize=chunk)


def _collect_less() -> None:
    """Look for cycles less often, and never among the modules: the looking cost a third of a history's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(300_000, 1, 1)


def broken_by(seed: int) -> list[str]:
    """What a seed's history breaks, with the command that replays it."""
    found = run(seed)
    return [f"{line}\n    replay: {found.replay}" for line in found.broken]


def explored(part: tuple[str, int, int, int]) -> Explored:
    """All orderings of a world whose first fault is at one point: (world, points, faults, first point)."""
    name, points, faults, first = part
    return explore(WORLDS[name], points=points, faults=faults, first=first)
