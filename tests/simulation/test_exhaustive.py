"""All orderings of up to three faults in small worlds: crash before, crash after, no answer, conflict."""

from __future__ import annotations

from collections import Counter

import pytest

from faultbridge.simulation.exhaustive import ADMISSION, PERSON, REPAIR, SMALL, World
from tests.simulation.pool import explored, spread


def play(world: World, points: int, faults: int) -> Counter[int]:
    """Play a world's orderings on all cores; fails with the faults that break something."""
    parts = [(world.name, points, faults, first) for first in range(points + 1)]
    found = list(spread(explored, parts, chunk=1))
    broken = [f"{given}: {line}" for one in found for given, line in one.broken]
    assert not broken, "\n".join(broken[:20])
    return sum((one.runs for one in found), Counter())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_small_world_survives_every_ordering_of_three_faults() -> None:
    runs = play(SMALL, points=12, faults=3)
    assert runs[0] == 1
    assert runs[1] == 48
    assert runs[2] > 900
    assert runs[3] > 10_000


@pytest.mark.parametrize("world", [PERSON, REPAIR, ADMISSION], ids=lambda world: world.name)
def test_a_case_survives_any_one_fault(world: World) -> None:
    assert play(world, points=25, faults=1)[1] == 100


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("world", "faults"), [(SMALL, 3), (PERSON, 3), (REPAIR, 2), (ADMISSION, 2)])
def test_a_larger_world_survives_every_ordering(world: World, faults: int) -> None:
    assert play(world, points=25, faults=faults)[faults] > 1000
