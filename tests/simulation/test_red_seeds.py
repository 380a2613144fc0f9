"""The listed red seeds violate their laws: each defect in the list is found by the simulation until it is corrected."""

from __future__ import annotations

import pytest

from tests.sim.laws.all_laws import LAWS
from tests.simulation.red_seeds import RedSeed, red_seeds, violations_of_law


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("red", red_seeds(), ids=lambda one: f"{one.defect}-{one.seed}")
def test_a_listed_seed_violates_its_law(red: RedSeed) -> None:
    assert violations_of_law(red), f"remove {red.defect} {red.seed} from the list, if the defect is corrected"


def test_every_listed_seed_names_a_law_of_the_simulation() -> None:
    assert {one.law for one in red_seeds()} <= LAWS
