"""Runs Faultbridge's own code on one random history with injected faults: `make seed SEED=7`.

Exit code 1: an invariant is broken. The program prints the smallest history that breaks it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.sim.history import STEPS, History, collect_less, run
from tests.sim.shrink import shrink


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one seed, print its result, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate one history with faults.")
    parser.add_argument("--seed", type=int, required=True, help="random seed; the same seed gives the same history")
    parser.add_argument("--steps", type=int, default=STEPS, help="number of external actions in the history")
    parser.add_argument("--story", action="store_true", help="print each step of the history")
    given = parser.parse_args(arguments)
    found = run(given.seed, given.steps)
    if given.story:
        _print(*found.journal.story())
    _print(f"seed {given.seed}: {found.injected} faults injected, digest {found.digest}")
    if not found.broken:
        return 0
    _print_smallest(found)
    return 1


def _print_smallest(found: History) -> None:
    smallest = shrink(found).history
    _print(f"smallest history that breaks it: {smallest.steps} steps", *smallest.journal.story())
    _print(f"broken invariant: {found.broken[0]}; repeat with `{found.replay}`, or shorter `{smallest.replay}`")


def _print(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    collect_less()
    sys.exit(main())
