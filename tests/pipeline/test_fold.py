"""Fold: the effect of observations on a node's conditions, in any order and number."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.capacity import MAX_CONDITIONS, OVERFLOW
from faultbridge.decide.fold.changes import Arrival, ChangeKind
from faultbridge.decide.fold.expire import end_boot, expire
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Clear, Fault, Snapshot
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, OTHER_GPU, after, arrival, fault, folded, node

KEY_OF_79 = "xid.79@gpu/pci=0000:c1:00"


def test_a_fault_opens_a_condition_and_its_record_is_recorded() -> None:
    result = folded(node(), arrival(fault()))
    condition = result.state.conditions[KEY_OF_79]
    assert (condition.severity, condition.count, condition.since) == (Severity.FATAL, 1, NOON)
    assert [change.kind for change in result.changes] == [ChangeKind.BEGAN]
    assert result.outcomes == {"r-1": Outcome.RECORDED}


def test_a_duplicate_observation_changes_nothing() -> None:
    first = folded(node(), arrival(fault()))
    again = folded(first.state, arrival(fault(), record_id="r-2"), now=after(days=3))
    assert again.state == first.state
    assert again.changes == ()
    assert again.outcomes == {"r-2": Outcome.DUPLICATE}


def test_an_older_observation_of_the_same_reporter_changes_nothing() -> None:
    first = folded(node(), arrival(fault(), at=NOON))
    older = folded(first.state, arrival(fault(evidence="another"), at=after(seconds=-5)))
    assert older.state == first.state


def test_two_different_observations_of_one_instant_count_twice() -> None:
    result = folded(node(), arrival(fault(evidence="one")), arrival(fault(evidence="two"), record_id="r-2"))
    assert result.state.conditions[KEY_OF_79].count == 2
    assert result.outcomes["r-2"] is Outcome.FOLDED


def test_a_repeated_fault_gives_an_entry_at_each_power_of_ten() -> None:
    arrivals = [arrival(fault(), at=after(seconds=second)) for second in range(12)]
    result = folded(node(), *arrivals)
    assert [change.kind for change in result.changes] == [ChangeKind.BEGAN, ChangeKind.UPDATED]
    assert result.changes[1].changed_parts == ("count",)


def test_a_second_reporter_joins_the_condition_of_its_failure_mode() -> None:
    seen_by_smi = fault("smi.gpu_lost", source="nvidia-smi-xml")
    result = folded(node(), arrival(fault()), arrival(seen_by_smi, at=after(seconds=1)))
    assert set(result.state.conditions) == {KEY_OF_79}
    assert set(result.state.conditions[KEY_OF_79].reporters) == {"kernel-log xid.79", "nvidia-smi-xml smi.gpu_lost"}
    assert result.changes[-1].changed_parts == ("reporters", "codes")


def test_a_condition_is_active_until_its_last_reporter_withdraws() -> None:
    both = folded(node(), arrival(fault()), arrival(fault("smi.gpu_lost", source="nvidia-smi-xml")))
    clear = Clear("nvidia-smi-xml", "smi.gpu_lost", GPU, "found again")
    one_left = folded(both.state, arrival(clear, at=after(minutes=1)))
    assert one_left.state.conditions[KEY_OF_79].active
    gone = folded(one_left.state, arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=2)))
    assert KEY_OF_79 not in gone.state.conditions
    assert gone.changes[-1].kind is ChangeKind.ENDED


@pytest.mark.parametrize("seconds", [0, 59])
def test_a_fault_from_before_its_clear_does_not_assert_a_condition_of_another_source_again(seconds: int) -> None:
    both = folded(node(), arrival(fault()), arrival(fault(source="dcgm-health"))).state
    cleared = folded(both, arrival(Clear("dcgm-health", "xid.79", GPU, "over"), after(minutes=1))).state
    late = folded(cleared, arrival(fault(source="dcgm-health", evidence="late"), after(seconds=seconds)))
    assert late.state.conditions[KEY_OF_79].sources == {"kernel-log"}
    assert late.outcomes["r-1"] in {Outcome.DUPLICATE, Outcome.STALE}


def test_an_observation_from_before_the_end_of_a_condition_opens_nothing() -> None:
    begun = folded(node(), arrival(fault()))
    ended = folded(begun.state, arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=2)))
    late = folded(ended.state, arrival(fault(source="dcgm-health", evidence="late"), at=after(minutes=1)))
    assert late.state == ended.state
    assert set(late.outcomes.values()) == {Outcome.STALE}


def test_an_observation_from_after_the_end_opens_the_condition_again() -> None:
    begun = folded(node(), arrival(fault()))
    ended = folded(begun.state, arrival(Clear("kernel-log", "xid.79", GPU, "over"), at=after(minutes=2)))
    again = folded(ended.state, arrival(fault(), at=after(minutes=3)))
    assert again.state.conditions[KEY_OF_79].since == after(minutes=3)


def test_an_observation_older_than_the_retention_is_stale() -> None:
    old = folded(node(), arrival(fault(), at=after(days=-20)))
    assert old.state == node()
    assert set(old.outcomes.values()) == {Outcome.STALE}


def test_an_informational_fault_is_noted_once_a_day_and_opens_no_condition() -> None:
    first = folded(node(), arrival(fault("xid.31")))
    same_day = folded(first.state, arrival(fault("xid.31"), at=after(hours=2)))
    next_day = folded(same_day.state, arrival(fault("xid.31"), at=after(hours=13)))
    assert [len(one.changes) for one in (first, same_day, next_day)] == [1, 0, 1]
    assert not next_day.state.conditions


def snapshot(*present: Fault, covers=None, source="nvidia-smi-xml") -> Snapshot:
    covers = {"smi.gpu_lost": (GPU, OTHER_GPU), "smi.row_remap_pending": (GPU, OTHER_GPU)} if covers is None else covers
    return Snapshot(source, covers, present)


def test_a_snapshot_withdraws_faults_of_its_source_that_it_no_longer_contains() -> None:
    pending = fault("smi.row_remap_pending", source="nvidia-smi-xml")
    begun = folded(node(), arrival(snapshot(pending)))
    assert begun.state.conditions
    clean = folded(begun.state, arrival(snapshot(), at=after(minutes=1)))
    assert not clean.state.conditions
    assert clean.outcomes == {"r-1": Outcome.RECORDED}


def test_a_snapshot_withdraws_nothing_that_it_could_not_read() -> None:
    pending = fault("smi.row_remap_pending", source="nvidia-smi-xml")
    begun = folded(node(), arrival(snapshot(pending)))
    unreadable = folded(
        begun.state, arrival(snapshot(covers={"smi.row_remap_pending": (OTHER_GPU,)}), at=after(minutes=1))
    )
    assert unreadable.state.conditions.keys() == begun.state.conditions.keys()


def test_a_snapshot_does_not_withdraw_the_report_of_another_source() -> None:
    begun = folded(node(), arrival(fault()))
    after_snapshot = folded(begun.state, arrival(snapshot(), at=after(minutes=1)))
    assert after_snapshot.state.conditions[KEY_OF_79].active


def test_a_snapshot_older_than_the_last_one_of_its_source_changes_nothing() -> None:
    first = folded(node(), arrival(snapshot(), at=after(minutes=5)))
    pending = fault("smi.row_remap_pending", source="nvidia-smi-xml")
    older = folded(first.state, arrival(snapshot(pending), at=after(minutes=1)))
    assert not older.state.conditions


def test_a_device_list_merges_two_conditions_of_one_device_and_keeps_the_older_start() -> None:
    by_index = fault("xid.48", component=type(GPU)(GPU.type, index=3), source="dcgm-health")
    state = folded(node(), arrival(by_index), arrival(fault("xid.48"), at=after(minutes=1))).state
    assert len(state.conditions) == 2
    known = Snapshot("nvidia-smi-xml", {}, devices=(type(GPU)(GPU.type, pci=GPU.pci, index=3, uuid="GPU-1"),))
    joined = folded(state, arrival(known, at=after(minutes=2)))
    (condition,) = joined.state.conditions.values()
    assert condition.since == NOON
    assert set(condition.reporters) == {"dcgm-health xid.48", "kernel-log xid.48"}


def test_a_source_withdraws_its_unspecific_report_by_the_key_it_used() -> None:
    anywhere = replace(GPU, pci=None)
    unspecific = arrival(fault("xid.48", anywhere, source="dcgm-health"))
    both = folded(node(), unspecific, arrival(fault("xid.48"), at=after(minutes=1))).state
    (condition,) = both.active()
    assert (condition.component, condition.sources) == (GPU, {"dcgm-health", "kernel-log"})
    over = Clear("dcgm-health", "xid.48", anywhere, "over")
    (left,) = folded(both, arrival(over, at=after(minutes=2))).state.active()
    assert left.sources == {"kernel-log"}


def test_a_fault_of_an_earlier_incarnation_is_a_note_and_no_condition() -> None:
    late = folded(node(), arrival(fault(), incarnation=IncarnationMatch.EARLIER))
    assert not late.state.conditions
    assert [change.kind for change in late.changes] == [ChangeKind.LATE]


def test_a_late_clear_of_the_old_instance_does_not_end_the_condition_of_the_new_one() -> None:
    state = folded(node(), arrival(fault())).state
    gone = Clear("kernel-log", "xid.79", GPU, "gone")
    absent = Snapshot("kernel-log", {"xid.79": (GPU,)})
    for observation in (gone, absent):
        late = folded(state, arrival(observation, at=after(minutes=1), incarnation=IncarnationMatch.EARLIER))
        assert (late.state, late.changes, late.outcomes) == (state, (), {"r-1": Outcome.STALE})


def test_a_reboot_ends_conditions_of_the_boot_but_not_of_the_device() -> None:
    state = folded(node(), arrival(fault("smi.row_remap_pending")), arrival(fault("xid.48"))).state
    after_reboot = end_boot(state, before=after(minutes=9), now=after(minutes=9)).state
    assert [condition.code for condition in after_reboot.conditions.values()] == ["xid.48"]


@pytest.mark.parametrize(
    ("last", "booted", "ended"), [(0, 9, 8.999), (0, 12, 10), (5, 3, 5)], ids=["before it", "at most now", "last seen"]
)
def test_a_reboot_ends_conditions_just_before_the_first_observation_of_the_new_boot(
    last: float, booted: float, ended: float
) -> None:
    state = folded(node(), arrival(fault("smi.row_remap_pending"), after(seconds=last))).state
    after_reboot = end_boot(state, before=after(seconds=booted), now=after(seconds=10)).state
    assert [one.ended_at for one in after_reboot.tombstones.values()] == [after(seconds=ended)]


def test_a_quiet_period_ends_only_conditions_with_one_in_the_catalog() -> None:
    state = folded(node(), arrival(fault("xid.92")), arrival(fault("xid.48"))).state
    assert expire(state, now=after(minutes=59)).state.conditions.keys() == state.conditions.keys()
    quiet = expire(state, now=after(hours=1))
    assert [condition.code for condition in quiet.state.conditions.values()] == ["xid.48"]
    assert expire(quiet.state, now=after(hours=2)).changes == ()


def test_a_node_holds_64_conditions_and_a_worse_one_evicts_the_mildest():
    links = [fault("xid.92", component=replace(GPU, link=number)) for number in range(MAX_CONDITIONS)]
    full = folded(node(), *(arrival(one, at=after(seconds=number)) for number, one in enumerate(links)))
    mild = folded(full.state, arrival(fault("xid.92", component=OTHER_GPU), at=after(minutes=5)))
    assert {condition.code for condition in mild.state.active()} == {"xid.92", OVERFLOW}
    worse = folded(mild.state, arrival(fault("xid.79"), at=after(minutes=6)))
    codes = [condition.code for condition in worse.state.active()]
    assert (codes.count("xid.92"), codes.count("xid.79"), codes.count(OVERFLOW)) == (MAX_CONDITIONS - 1, 1, 1)
    again = folded(worse.state, arrival(fault("xid.92", component=OTHER_GPU), at=after(minutes=5)))
    assert again.state == worse.state


@st.composite
def histories(draw: st.DrawFn) -> list[Arrival]:
    codes = st.sampled_from(["xid.79", "smi.gpu_lost", "xid.48", "xid.31", "xid.92"])
    sources = st.sampled_from(["kernel-log", "nvidia-smi-xml", "dcgm-health"])
    arrivals = []
    for number in range(draw(st.integers(1, 12))):
        at = after(seconds=draw(st.integers(0, 30)))
        component = draw(st.sampled_from([GPU, OTHER_GPU]))
        code, source = draw(codes), draw(sources)
        if draw(st.integers(0, 3)) == 0:
            observation: Fault | Clear = Clear(source, code, component, "over")
        else:
            observation = fault(code, component, source=source, evidence=str(number))
        arrivals.append(arrival(observation, at, f"r-{number}"))
    return arrivals


@given(histories(), st.randoms(use_true_random=False))
def test_a_history_replayed_in_any_order_changes_nothing(history: list[Arrival], random: Random) -> None:
    first = folded(node(), *history, now=after(hours=1))
    replayed = [*history, *history]
    random.shuffle(replayed)
    state = first.state
    for one in replayed:
        state = folded(state, one, now=after(days=3)).state
    assert state.conditions.keys() == first.state.conditions.keys()
    for key, condition in state.conditions.items():
        assert condition.since == first.state.conditions[key].since


@given(histories())
def test_every_record_of_a_batch_has_exactly_one_outcome(history: list[Arrival]) -> None:
    assert set(folded(node(), *history).outcomes) == {one.record_id for one in history}
