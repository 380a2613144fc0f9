"""Capacity that comes and goes in the simulation: an instance is kept until its successor can be launched."""

from __future__ import annotations

import pytest

from faultbridge.repair.successor import sources
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.history import draw_growing, draw_reserving, draw_spares, draw_volumes, play
from tests.sim.shrink import violated_invariants

SEEDS = range(300)
RESERVED = next(seed for seed in SEEDS if draw_reserving(seed) and draw_spares(seed) is None)
WITH_SPARES = next(seed for seed in SEEDS if draw_spares(seed) and not draw_volumes(seed) and not draw_growing(seed))
NONE_LEFT = ExternalAction(60.0, "reservation_change", "", 0, 0.5)
REPLACE = ExternalAction(60.0, "replace", "", 0, 0.5)
APPROVE = ExternalAction(300.0, "approve", "", 0, 0.5)
KEPT = "no instance is given up without the capacity that its rule demands"


def test_a_fifth_of_the_seeds_has_capacity_that_changes() -> None:
    assert 40 <= sum(map(draw_reserving, SEEDS)) <= 90


def test_an_instance_is_kept_until_the_reservation_has_a_free_one() -> None:
    found = play(RESERVED, (NONE_LEFT, REPLACE, APPROVE, APPROVE))
    story = "\n".join(found.journal.story())
    assert found.broken == ()
    assert story.index("capacity none_left the reservation has 0 free") < story.index("intent committed")


def test_spares_that_are_used_up_are_launched_again_once_there_is_capacity() -> None:
    wait = ExternalAction(7200.0, "resume_repairs")
    found = play(WITH_SPARES, (wait, ExternalAction(60.0, "spares_used_up", "", 0, 0.5)))
    assert found.broken == ()
    assert "another tool terminates the spare" in "\n".join(found.journal.story())


def test_an_instance_that_is_given_up_without_free_capacity_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "requeue_without_capacity", lambda *_: None)
    assert KEPT in violated_invariants(play(RESERVED, (NONE_LEFT, REPLACE, APPROVE, APPROVE)))
