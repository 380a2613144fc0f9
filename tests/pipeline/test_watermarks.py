"""Watermarks at their exact limits: the last observation that is ignored and the first that counts."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from faultbridge.decide.fold.capacity import MAX_CONDITIONS, MAX_TOMBSTONES
from faultbridge.decide.fold.changes import Arrival, ChangeKind
from faultbridge.decide.fold.daily_notes import INFORMATION, MAX_PER_DAY
from faultbridge.decide.fold.expire import end_all, ignore_observations
from faultbridge.decide.fold.node_conditions import MAX_SNAPSHOTS
from faultbridge.model.faults import Clear, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, OTHER_GPU, after, arrival, fault, folded, node

KEY_OF_79 = "xid.79@gpu/pci=0000:c1:00"
MILLISECOND = timedelta(milliseconds=1)


def outcome(state: NodeState, *arrivals: Arrival, now=NOON) -> Outcome:
    (only,) = folded(state, *arrivals, now=now).outcomes.values()
    return only


def reopened() -> NodeState:
    """Return a node whose condition ended at noon and began again a minute later."""
    first = folded(node(), arrival(fault(), at=after(minutes=-1)))
    ended = end_all(first.state, at=NOON, reason="replaced")
    return folded(ended.state, arrival(fault(evidence="again"), at=after(minutes=1)), now=after(minutes=1)).state


def test_a_repeated_fault_of_a_reopened_condition_counts() -> None:
    state = reopened()
    repeated = folded(state, arrival(fault(), at=after(minutes=2)), now=after(minutes=2))
    assert set(repeated.outcomes.values()) == {Outcome.FOLDED}
    assert repeated.state.conditions[KEY_OF_79].count == 2


@pytest.mark.parametrize(("seconds", "expected"), [(-1, Outcome.STALE), (0, Outcome.STALE), (1, Outcome.RECORDED)])
def test_an_observation_from_before_the_end_does_not_count_for_the_reopened_condition(
    seconds: int, expected: Outcome
) -> None:
    late = arrival(fault(source="dcgm-health"), at=after(seconds=seconds))
    assert outcome(reopened(), late, now=after(minutes=5)) is expected


@pytest.mark.parametrize(("moved", "opened"), [(timedelta(0), 0), (MILLISECOND, 1)])
def test_observations_from_before_a_passed_verification_open_nothing_despite_a_tombstone(moved, opened) -> None:
    known = folded(node(), arrival(fault(), at=after(minutes=-60)))
    ended = end_all(known.state, at=after(minutes=-50), reason="replaced").state
    verified = ignore_observations(ended, before=NOON)
    late = folded(verified, arrival(fault(), at=NOON + moved), now=after(minutes=5))
    assert len(late.state.conditions) == opened
    assert [one.kind for one in late.changes] == [ChangeKind.BEGAN if opened else ChangeKind.LATE]


def test_a_known_fault_that_is_delivered_again_after_a_passed_verification_is_stale() -> None:
    known = folded(node(), arrival(fault(), at=after(minutes=-60)))
    ended = end_all(known.state, at=after(minutes=-50), reason="replaced").state
    verified = ignore_observations(ended, before=NOON)
    again = folded(verified, arrival(fault(), at=after(minutes=-60)), now=after(minutes=5))
    assert (again.state, again.outcomes) == (verified, {"r-1": Outcome.STALE})


@pytest.mark.parametrize(("moved", "before"), [(timedelta(0), None), (-MILLISECOND, after(minutes=2))])
def test_only_a_condition_that_ended_after_the_verification_comes_back(moved, before) -> None:
    ended = end_all(reopened(), at=after(minutes=2), reason="replaced").state
    verified = ignore_observations(ended, before=after(minutes=2) + moved)
    again = folded(verified, arrival(fault(), at=after(minutes=3)), now=after(minutes=3)).state
    assert again.conditions[KEY_OF_79].ended_before == before


@pytest.mark.parametrize(("moved", "expected"), [(-MILLISECOND, Outcome.STALE), (timedelta(0), Outcome.RECORDED)])
def test_an_observation_one_millisecond_beyond_the_retention_is_stale(moved, expected) -> None:
    at = NOON - Limits().remember_for + moved
    assert outcome(node(), arrival(fault(), at=at)) is expected


@pytest.mark.parametrize(("moved", "expected"), [(timedelta(0), Outcome.STALE), (MILLISECOND, Outcome.RECORDED)])
def test_an_observation_exactly_at_the_end_of_a_condition_is_stale(moved, expected) -> None:
    first = folded(node(), arrival(fault(), at=after(minutes=-1)))
    ended = end_all(first.state, at=NOON, reason="replaced")
    assert outcome(ended.state, arrival(fault(evidence="new"), at=NOON + moved), now=after(minutes=1)) is expected


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_fault_and_its_withdrawal_at_the_same_time_are_a_fault_in_any_order(order: tuple[int, ...]) -> None:
    over = Clear("kernel-log", "xid.79", GPU, "over")
    arrivals = [
        arrival(fault(), NOON, "r-1"),
        arrival(fault(evidence="again"), after(minutes=1), "r-2"),
        arrival(over, after(minutes=1), "r-3"),
    ]
    state = node()
    for number in (*order, *order):
        state = folded(state, arrivals[number], now=after(minutes=2)).state
    assert [one.code for one in state.active()] == ["xid.79"]


def test_tombstones_and_notes_are_kept_up_to_their_limits() -> None:
    state = node()
    for number in range(MAX_TOMBSTONES):
        begun = folded(state, arrival(fault(f"xid.{1000 + number}"), at=NOON))
        state = end_all(begun.state, at=NOON, reason="gone").state
    assert len(state.tombstones) == MAX_TOMBSTONES
    assert state.floor is None
    state = node()
    for number in range(MAX_PER_DAY[INFORMATION]):
        component = OTHER_GPU.__class__(OTHER_GPU.type, pci=f"0000:{number:02x}:00")
        state = folded(state, arrival(fault("xid.31", component=component), at=NOON)).state
    assert len(state.noted) == MAX_PER_DAY[INFORMATION]


def test_a_quiet_condition_ends_exactly_at_the_end_of_its_quiet_period() -> None:
    from faultbridge.decide.fold.expire import expire

    state = folded(node(), arrival(fault("xid.92"), at=NOON)).state
    (condition,) = state.conditions.values()
    until = condition.quiet_until
    assert until is not None
    assert expire(state, now=until - MILLISECOND).changes == ()
    assert len(expire(state, now=until).changes) == 1


def test_every_observation_of_one_instant_is_recognized_as_a_duplicate() -> None:
    first, second = fault(evidence="one"), fault(evidence="two")
    state = folded(node(), arrival(first), arrival(second, record_id="r-2")).state
    assert outcome(state, arrival(first, record_id="r-3")) is Outcome.DUPLICATE
    assert outcome(state, arrival(second, record_id="r-3")) is Outcome.DUPLICATE


@pytest.mark.parametrize(("seconds", "expected"), [(0, Outcome.DUPLICATE), (-1, Outcome.STALE)])
def test_a_repeated_snapshot_is_a_duplicate_and_an_older_one_is_stale(seconds: int, expected: Outcome) -> None:
    snapshot = Snapshot("nvidia-smi-xml", {"smi.row_remap_pending": (OTHER_GPU,)}, ())
    state = folded(node(), arrival(snapshot)).state
    assert outcome(state, arrival(snapshot, at=after(seconds=seconds), record_id="r-2")) is expected


def test_a_snapshot_of_one_check_does_not_make_another_check_of_the_source_stale() -> None:
    seen = [fault(source="nvsentinel", component=GPU), fault("xid.95", source="nvsentinel", component=OTHER_GPU)]
    begun = folded(node(), *(arrival(one) for one in seen))
    snapshots = [
        Snapshot("nvsentinel", {"xid.95": (OTHER_GPU,)}, part="GpuMemWatch"),
        Snapshot("nvsentinel", {"xid.79": (GPU,)}, part="SysLogsXIDError"),
    ]
    newer = folded(begun.state, arrival(snapshots[0], after(minutes=10), "r-1"))
    older = folded(newer.state, arrival(snapshots[1], after(minutes=9), "r-2"))
    assert older.state.conditions == {}
    again = folded(older.state, arrival(snapshots[1], after(minutes=9), "r-3"))
    assert again.outcomes == {"r-3": Outcome.DUPLICATE}


def test_the_number_of_stored_snapshot_times_is_limited() -> None:
    snapshots = [
        arrival(Snapshot("nvsentinel", {}, part=f"check-{number}"), after(minutes=number), f"r-{number}")
        for number in range(MAX_SNAPSHOTS + 5)
    ]
    state = folded(node(), *snapshots).state
    assert len(state.snapshots) == MAX_SNAPSHOTS
    assert "nvsentinel#check-0" not in state.snapshots


@pytest.mark.parametrize(("moved", "kind"), [(timedelta(0), ChangeKind.LATE), (MILLISECOND, ChangeKind.BEGAN)])
def test_a_fault_exactly_at_the_floor_is_a_note(moved, kind) -> None:
    with_floor = replace(node(), floor=NOON)
    late = folded(with_floor, arrival(fault(), at=NOON + moved), now=after(minutes=1))
    assert [one.kind for one in late.changes] == [kind]


@pytest.mark.parametrize(("moved", "active"), [(timedelta(0), True), (MILLISECOND, False)])
def test_a_clear_ends_a_condition_only_if_it_is_later_than_the_fault(moved, active) -> None:
    begun = folded(node(), arrival(fault()))
    over = folded(begun.state, arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=NOON + moved))
    assert bool(list(over.state.active())) is active


def test_a_fault_no_worse_than_the_conditions_of_a_full_node_evicts_none() -> None:
    links = [fault("xid.92", component=replace(GPU, link=number)) for number in range(MAX_CONDITIONS)]
    full = folded(node(), *(arrival(one, at=after(seconds=number)) for number, one in enumerate(links)))
    one_more = folded(full.state, arrival(fault("xid.92", component=OTHER_GPU), at=after(minutes=5)))
    assert OTHER_GPU not in {condition.component for condition in one_more.state.active()}
