"""The owner of the repaired group and its rival: repairs wait for updates, and a rival's acts are followed."""

from __future__ import annotations

import pytest

from faultbridge.decide import admit, case_moves
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.values import replace
from faultbridge.repair.registry import provider_check
from tests.builders import NOON, after
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.fakes import FakeFleet, FakeInventory, ManualClock
from tests.sim.group_owner import GroupOwner, ObservedUpdate
from tests.sim.history import draw_growing, play, run
from tests.sim.shrink import violated_invariants

SEEDS = range(300)
OWNED = next(seed for seed in SEEDS if draw_growing(seed))
WAYS = ("an instance refresh", "an update of the node group", "an update of the software")


def update(way: int, *, fraction: float = 0.2) -> ExternalAction:
    """An update in one of three ways, which takes no longer than repairs wait."""
    return ExternalAction(60.0, "group_update", "", way + 3, fraction)


def rival(*, reboots: bool) -> ExternalAction:
    return ExternalAction(60.0, "rival_repair", "", 0 if reboots else 1, 0.1)


def report(gap: float, sample: str) -> ExternalAction:
    """A record of the first node; its instance becomes bad."""
    return ExternalAction(gap, "report", sample, 0, 0.5)


REPLACE = ExternalAction(600.0, "replace", "", 0, 0.5)
APPROVE = ExternalAction(1800.0, "approve", "", 0, 0.5)


def story_of(*actions: ExternalAction) -> str:
    """Return the story of a run that violates no invariant."""
    found = play(OWNED, actions)
    assert found.broken == ()
    return "\n".join(found.journal.story())


def broken_by(*actions: ExternalAction) -> tuple[str, ...]:
    """Return the violated invariants of a run."""
    return tuple(violated_invariants(play(OWNED, actions)))


@pytest.mark.parametrize("way", range(3))
def test_the_nodes_of_an_update_leave_and_join_without_a_repair(way: int) -> None:
    story = story_of(update(way))
    assert any(f"{name} of " in story for name in WAYS)
    assert "the update of the group ends" in story
    assert ("cloud.instance_gone" in story) == (way != 2)
    assert "intent committed" not in story
    pages = [line for line in story.splitlines() if " page " in line and ":unseen:" not in line]
    assert pages == []  # no node of the simulation has an agent yet


def test_an_ordered_replacement_waits_until_the_update_and_its_grace_period_are_over() -> None:
    story = story_of(update(2), REPLACE, APPROVE, APPROVE, APPROVE)
    assert "repairs wait until" in story
    assert story.index("the update of the group ends") < story.index("intent committed")


def test_a_rival_that_replaces_the_instance_of_a_case_is_followed() -> None:
    story = story_of(rival(reboots=False), report(60.0, "xid 79"))
    assert "the provider replaces" in story
    assert "rival repair" in story


def test_a_rival_that_reboots_a_node_of_a_case_is_followed() -> None:
    assert "the provider reboots" in story_of(rival(reboots=True), report(60.0, "xid 79"))


def test_a_repair_that_starts_during_an_update_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = tuple(check for check in admit.CHECKS if check is not admit._check_update)
    monkeypatch.setattr(admit, "CHECKS", checks)
    monkeypatch.setattr(ClusterConfig, "update_hold", lambda *_: None)
    found = broken_by(update(2, fraction=0.9), REPLACE, replace(APPROVE, gap=300.0))
    assert "no repair starts in a group while its owner updates it" in found


def test_a_case_for_a_node_that_leaves_in_an_update_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_moves, "is_absence", lambda _condition: False)
    found = broken_by(update(1))
    assert "a node that leaves in an update opens no case for its absence" in found


def test_a_rival_that_the_cluster_does_not_name_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_check, "owner_conflict", lambda *_: None)
    assert "the cluster names a rival exactly while it repairs" in broken_by(rival(reboots=True))


def test_an_order_in_the_millisecond_of_the_launch_is_a_reason() -> None:
    assert run(8102240, 5).broken == ()


def test_an_update_that_follows_before_a_run_saw_the_end_of_the_last_one_extends_no_wait() -> None:
    owner = GroupOwner(FakeInventory(FakeFleet(ManualClock(NOON))), "gpus")
    owner.begin_update("the first", NOON, None)
    owner.was_read(after(minutes=1), {})
    owner.end_update(after(minutes=30))
    owner.begin_update("the second", after(minutes=31), None)
    assert owner.updates[-1].begun == NOON
    owner.end_update(after(minutes=40))
    owner.was_read(after(minutes=41), {})
    owner.begin_update("the third", after(minutes=42), None)
    assert owner.updates[-1].begun == after(minutes=42)


def test_an_update_that_only_an_interrupted_run_read_counts_as_one_with_the_next() -> None:
    fleet = FakeFleet(ManualClock(NOON))
    fleet.launch("gpus")
    owner = GroupOwner(FakeInventory(fleet), "gpus")
    owner.begin_update("the first", NOON, None)
    owner.inventory.provider_status(ClusterConfig("train-a"), ["gpus"])
    for name in ("the second", "the third"):
        owner.end_update(after(minutes=30))
        owner.begin_update(name, after(minutes=31), None)
        assert owner.updates[-1].begun == NOON
    owner.end_update(after(minutes=40))
    owner.was_read(after(minutes=41), {})
    owner.begin_update("the fourth", after(minutes=42), None)
    assert owner.updates[-1].begun == after(minutes=42)


@pytest.mark.parametrize(
    ("ended", "end_seen", "too_late"),
    [(None, None, False), (0, None, True), (0, 375, False), (0, 376, True)],
)
def test_an_end_of_an_update_is_seen_too_late_once_replaced_nodes_are_no_longer_retired(
    ended: int | None, end_seen: int | None, too_late: bool
) -> None:
    seen = ObservedUpdate(
        after(minutes=-60),
        ended=None if ended is None else after(minutes=ended),
        end_seen=None if end_seen is None else after(minutes=end_seen),
    )
    assert seen.end_seen_too_late is too_late


def test_the_end_of_an_update_is_seen_at_the_first_inventory_run_after_it() -> None:
    owner = GroupOwner(FakeInventory(FakeFleet(ManualClock(NOON))), "gpu")
    owner.begin_update("an update", NOON, NOON)
    owner.was_read(after(minutes=1), {})
    owner.end_update(after(minutes=2))
    for minutes in (3, 4):
        owner.was_read(after(minutes=minutes), {})
    assert owner.updates[0].end_seen == after(minutes=3)
