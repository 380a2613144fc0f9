"""Red seeds: seeds whose runs violate a law because of a known defect of the product, from `red_seeds.yaml`.

A correction of a defect removes its seeds from the list. `make seeds LIST=tests/simulation/red_seeds.yaml` runs all of
them, and prints which laws they violate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.sim.history import run

FILE = Path(__file__).with_name("red_seeds.yaml")


@dataclass(frozen=True, slots=True)
class RedSeed:
    """A seed, its number of actions, the defect that it shows, the law that it violates, and one line about it."""

    seed: int
    steps: int
    defect: str
    law: str
    text: str


def red_seeds(file: Path = FILE) -> list[RedSeed]:
    """Return the red seeds of a file."""
    return [RedSeed(**row) for row in yaml.safe_load(file.read_text(encoding="utf-8")) or ()]


def violations_of_law(red: RedSeed) -> list[str]:
    """Run a red seed, and return the violations of its law."""
    return [line for line in run(red.seed, red.steps).broken if line.startswith(f"{red.law}: ")]


def run_red_seeds(part: Sequence[RedSeed]) -> tuple[int, float, list[str]]:
    """Run red seeds for `long_runs`; returns their number, the processor time, and the violations of their laws."""
    import time

    start = time.process_time()
    found = [f"{one.defect} {one.seed}: {line}" for one in part for line in violations_of_law(one)]
    return len(part), time.process_time() - start, found
