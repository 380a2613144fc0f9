"""Volumes in the simulation: some seeds have them, repairs move them, and a repair that loses one is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.repair import volumes
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.history import History, draw_volumes, play
from tests.sim.shrink import violated_invariants

SEEDS = range(300)
KINDS = {"volume_failure", "volume_stuck", "volume_outage", "volume_tag_lost"}
REPLACE = ExternalAction(60.0, "replace", "", 0, 0.5)
APPROVE = ExternalAction(600.0, "approve", "", 0, 0.5)
MOVING = next(seed for seed in SEEDS if draw_volumes(seed))


def replaced(*before: ExternalAction) -> History:
    """A run in which an operator orders the replacement of a node."""
    return play(MOVING, (*before, REPLACE, APPROVE, APPROVE))


def test_a_quarter_of_the_seeds_has_volumes() -> None:
    assert 50 <= sum(map(draw_volumes, SEEDS)) <= 100


@pytest.mark.parametrize("kind", [None, *sorted(KINDS - {"volume_tag_lost"})])
def test_a_replacement_moves_the_volumes_whatever_their_calls_do(kind: str | None) -> None:
    found = replaced(*([ExternalAction(60.0, kind, "", 0, 0.1)] if kind else []))
    assert found.broken == ()
    story = "\n".join(found.journal.story())
    assert "detach_volumes detached" in story
    assert "attach_volumes attached" in story


def test_a_volume_without_its_tag_does_not_move() -> None:
    found = replaced(ExternalAction(60.0, "volume_tag_lost", "", 0, 0.1))
    assert found.broken == ()
    story = "\n".join(found.journal.story())
    assert "release_instance released" in story
    assert "detach_volumes" not in story


def test_a_volume_that_stayed_on_its_instance_and_lost_its_tag_later_does_not_move() -> None:
    refused = ExternalAction(60.0, "volume_failure", "", 4, 0.1)
    returned = ExternalAction(3000.0, "return", "", 0, 0.5)
    tag_lost = ExternalAction(3600.0, "volume_tag_lost", "", 0, 0.1)
    found = replaced(refused, REPLACE, APPROVE, APPROVE, returned, tag_lost)
    assert found.broken == ()
    story = "\n".join(found.journal.story())
    assert "detach_volumes refused" in story
    assert "attach_volumes attached" in story
    assert "release_instance released" in story


def test_an_instance_whose_volume_lost_its_tag_while_it_left_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_tag(context: Any, instance_id: str) -> Any:
        for one in context.state.moving_volumes:
            context.volumes.remove_tag(one.volume_id)
        return detach(context, instance_id)

    detach = volumes._detach
    monkeypatch.setattr(volumes, "_detach", lose_tag)
    found = replaced()
    assert found.broken == ()
    assert "lost the tag faultbridge:volume while it was attached to" in "\n".join(found.journal.story())


def test_a_release_of_an_instance_whose_volume_lost_its_tag_while_it_left_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose_tag(context: Any, _: str) -> Any:
        for one in context.state.moving_volumes:
            context.volumes.remove_tag(one.volume_id)
        return context, None

    monkeypatch.setattr(volumes, "_detach", lose_tag)
    lost = "no volume that the policy names is deleted with an instance that Faultbridge released"
    assert lost in violated_invariants(replaced())


def test_a_release_with_the_volumes_on_the_instance_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "detach_volumes", lambda context, *_: (context, None))
    lost = "no volume that the policy names is deleted with an instance that Faultbridge released"
    assert lost in violated_invariants(replaced())


def test_a_node_that_serves_without_its_volumes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "attach_volumes", lambda context: (context, None))
    assert "a node that serves without a case has the volumes that the policy names" in violated_invariants(replaced())
