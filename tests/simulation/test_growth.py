"""Growth of the repaired group: some seeds contain it, and new instances are verified, given up or imported."""

from __future__ import annotations

import pytest

from tests.sim.environment.action_plan import ExternalAction
from tests.sim.history import draw_growing, draw_nodes_in_rack, draw_spares, play
from tests.sim.situations.draw import Situation, draw_large, draw_situations

SEEDS = range(300)
KINDS = ("growth", "growth_during_pause", "growth_during_import", "growth_during_incident")
GROWING = next(seed for seed in SEEDS if draw_growing(seed))


def story_of(kind: str, *, fraction: float) -> str:
    """Return the story of a run with one growth, which violates no invariant."""
    found = play(GROWING, (ExternalAction(60.0, kind, "", 1, fraction),))
    assert found.broken == ()
    return "\n".join(found.journal.story())


def test_a_seventh_of_the_seeds_grows_but_none_with_racks_or_a_launch_template() -> None:
    growing = [seed for seed in SEEDS if draw_growing(seed)]
    assert 25 <= len(growing) <= 60
    others = [seed for seed in growing if Situation.SCALE_IN not in draw_situations(seed)]
    assert {(draw_nodes_in_rack(seed), draw_spares(seed)) for seed in others} == {(None, None)}


def test_an_inventory_reads_each_group_that_shrinks() -> None:
    shrinking = [seed for seed in SEEDS if Situation.SCALE_IN in draw_situations(seed)]
    assert any(draw_large(seed) for seed in shrinking)
    assert all(map(draw_growing, shrinking))


@pytest.mark.parametrize("kind", KINDS)
def test_new_instances_are_verified_before_they_serve(kind: str) -> None:
    story = story_of(kind, fraction=0.9)
    assert "the group grows by" in story
    assert "None -> validating" in story
    assert "validating -> healthy" in story


def test_a_new_instance_that_is_bad_never_serves_as_it_is() -> None:
    story = story_of("growth", fraction=0.1)
    assert "bad: i-" in story
    assert "validating -> quarantined" in story or "validating -> repairing" in story
