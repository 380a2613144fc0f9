"""Looks: whatever may notice a mutant. Tests come from pytest; the histories are here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from faultbridge.simulation.exhaustive import WORLDS, World, explore
from faultbridge.simulation.history import run
from tests.simulation.mutants.swap import Place

SEEDS = range(30)
POINTS = 25


@dataclass(frozen=True, slots=True)
class Look:
    """Something to run; it returns what it noticed. `sees` are the functions that it runs, `cost` is in seconds."""

    name: str
    run: Callable[[], str | None]
    sees: frozenset[Place] = frozenset()
    cost: float = 0.0


def histories() -> Iterator[Look]:
    """The seeds, and every single fault in each small world."""
    for seed in SEEDS:
        yield Look(f"seed {seed}", partial(_seed, seed))
    for world in WORLDS.values():
        yield Look(f"one fault: {world.name}", partial(_orderings, world))


def measured(look: Look, seen: set[Place]) -> tuple[Look, str | None]:
    """Run a look on the sound program: what it sees and costs, and what it noticed that it should not have."""
    seen.clear()
    began = time.process_time()
    noticed = look.run()
    return Look(look.name, look.run, frozenset(seen), time.process_time() - began), noticed


def _seed(seed: int) -> str | None:
    broken = run(seed).broken
    return f"seed {seed}: {broken[0]}" if broken else None


def _orderings(world: World) -> str | None:
    broken = explore(world, points=POINTS, faults=1).broken
    return f"{world.name}, {broken[0]}" if broken else None
