"""The invariants hold for all orderings of up to three faults in small scenarios."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.exhaustive import APPROVAL, ESCALATION, ISOLATION, KINDS, ORDERED_REPAIR, REPAIR, WATCHED_FAULT, Scenario
from tests.sim.fault_injection import FaultKind
from tests.sim.scripted_orders import Order
from tests.simulation.parallel import explore_part, parallel_map


def play(scenario: Scenario, points: int, faults: int) -> Counter[int]:
    """Run all orderings of a scenario on all cores; fails with the faults that cause violations."""
    parts = [(scenario.name, points, faults, first) for first in range(points + 1)]
    found = list(parallel_map(explore_part, parts, chunk=1))
    broken = [f"{given}: {line}" for one in found for given, line in one.broken]
    assert not broken, "\n".join(broken[:20])
    return sum((one.runs for one in found), Counter())


@pytest.mark.nightly
def test_a_watched_fault_survives_every_ordering_of_two_faults() -> None:
    runs = play(WATCHED_FAULT, points=12, faults=2)
    assert runs[0] == 1
    assert runs[1] == 48
    assert runs[2] > 900


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
def test_a_watched_fault_survives_every_ordering_of_three_faults() -> None:
    runs = play(WATCHED_FAULT, points=12, faults=3)
    assert runs[0] == 1
    assert runs[1] == 48
    assert runs[2] > 900
    assert runs[3] > 10_000


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", [ESCALATION, REPAIR, ISOLATION], ids=lambda scenario: scenario.name)
def test_a_case_survives_any_single_fault(scenario: Scenario) -> None:
    assert play(scenario, points=25, faults=1)[1] == 100


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", [ORDERED_REPAIR, APPROVAL], ids=lambda scenario: scenario.name)
def test_an_operator_may_interfere_at_the_start_of_a_repair(scenario: Scenario) -> None:
    assert play(scenario, points=12, faults=1)[1] == 12 * len((*KINDS, *Order))


def test_a_run_waits_for_the_end_of_an_exclusion_that_an_operator_orders_late() -> None:
    injector, broken = APPROVAL.play(((3, FaultKind.TRANSIENT), (7, Order.IGNORE)))
    assert injector.injected == 2
    assert broken == []


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("scenario", [ORDERED_REPAIR, APPROVAL], ids=lambda scenario: scenario.name)
def test_an_operator_may_interfere_at_any_point_and_twice_at_the_start(scenario: Scenario) -> None:
    assert play(scenario, points=200, faults=1)[1] > 1000
    assert play(scenario, points=12, faults=2)[2] > 5000


@pytest.mark.nightly
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(("scenario", "faults"), [(WATCHED_FAULT, 3), (ESCALATION, 3), (REPAIR, 2), (ISOLATION, 2)])
def test_a_scenario_survives_every_ordering_over_more_points(scenario: Scenario, faults: int) -> None:
    assert play(scenario, points=25, faults=faults)[faults] > 1000
