"""The invariants hold in the simulated runs of many seeds."""

from __future__ import annotations

import sys

import pytest

from tests.simulation.parallel import parallel_map, violations_of

SEEDS = range(10)
"""The seeds of each test run, about a second of a core each; `make seeds` runs any number of fresh ones."""
NIGHTLY_SEEDS = range(10, 20_300)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_seed_violates_an_invariant() -> None:
    broken = [line for lines in parallel_map(violations_of, SEEDS) for line in lines]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("seed", [4572212074, 6156727697, 6518803641])
def test_seeds_whose_operators_once_left_cases_without_a_way_out_violate_no_invariant(seed: int) -> None:
    assert violations_of(seed) == []


def test_a_run_waits_for_the_next_try_of_an_isolation() -> None:
    assert violations_of(100_010_039) == []


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
def test_twenty_thousand_seeds_violate_no_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    broken = []
    for seed, lines in zip(NIGHTLY_SEEDS, parallel_map(violations_of, NIGHTLY_SEEDS, chunk=50), strict=True):
        broken += lines
        if lines or not seed % 500:
            with capsys.disabled():
                sys.stdout.write("\n".join(("", f"seed {seed} of {NIGHTLY_SEEDS.stop}, {len(broken)} broken", *lines)))
    assert not broken, "\n".join(broken[:50])
