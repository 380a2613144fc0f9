"""Oversized records: of too many faults, the worst are kept, and one fault stands for the others."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.normalize.oversized_records import MAX_FAULTS, add_evidence_object, limit_faults
from faultbridge.model.faults import ELLIPSIS, NODE_COMPONENT, CounterSample, Fault, Observation, Snapshot, faults_of
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, after, fault


def limited(observations: list[Observation]) -> list[Fault]:
    kept = limit_faults(tuple(observations), "kernel-log", CATALOG)
    return [one for observation in kept for one in faults_of(observation)]


def mild(count: int) -> list[Observation]:
    return [fault("xid.92", replace(GPU, link=number)) for number in range(count)]


def test_64_different_faults_are_kept_and_of_65_the_63_worst() -> None:
    assert limited(mild(MAX_FAULTS)) == mild(MAX_FAULTS)
    *kept, flood = limited([*mild(MAX_FAULTS), fault("xid.79")])
    assert len(kept) == MAX_FAULTS - 1
    assert kept[-1] == fault("xid.79")
    assert (flood.code, flood.component, flood.attributes) == ("agent.flood", NODE_COMPONENT, {"faults": "65"})


@pytest.mark.parametrize(
    ("times", "latest"),
    [((), None), ((NOON,), NOON), ((after(minutes=1), NOON), after(minutes=1))],
)
def test_the_fault_that_stands_for_others_has_their_latest_time(
    times: tuple[datetime, ...], latest: datetime | None
) -> None:
    timed = [fault("xid.48", replace(GPU, link=90 + number), observed_at=at) for number, at in enumerate(times)]
    assert limited([*timed, *mild(70)])[-1].observed_at == latest


def test_what_is_no_fault_is_kept_when_a_record_has_too_many_faults() -> None:
    sample = CounterSample("port-counters", GPU, {"errors": 1})
    kept = limit_faults((*mild(MAX_FAULTS + 1), sample), "kernel-log", CATALOG)
    assert sample in kept


def test_warnings_are_kept_before_information() -> None:
    warning = fault("xid.92")
    information: list[Observation] = [fault("xid.31", replace(GPU, link=number)) for number in range(MAX_FAULTS)]
    assert warning in limited([*information, warning])


def test_a_snapshot_keeps_its_worst_faults_and_does_not_clear_the_removed_ones() -> None:
    faults = tuple(fault("xid.92", replace(GPU, link=number)) for number in range(MAX_FAULTS + 1))
    components = tuple(one.component for one in faults)
    snapshot = Snapshot("kernel-log", {"xid.92": (*components, GPU), "xid.79": (GPU,)}, faults)
    reduced, _ = limit_faults((snapshot,), "kernel-log", CATALOG)
    assert isinstance(reduced, Snapshot)
    assert reduced.present == faults[: MAX_FAULTS - 1]
    assert reduced.covers == {"xid.92": (*components[: MAX_FAULTS - 1], GPU), "xid.79": (GPU,)}


def test_each_fault_with_a_cut_excerpt_names_the_full_record() -> None:
    cut, whole = fault(evidence=f"begins{ELLIPSIS}", attributes={"pid": "1"}), fault()
    sample = CounterSample("port-counters", GPU, {"errors": 1})
    linked = replace(cut, attributes={"pid": "1", "evidence_object": "raw/1"})
    snapshot = Snapshot("kernel-log", {}, (cut, whole))
    found = add_evidence_object((cut, whole, snapshot, sample), "raw/1")
    assert found == (linked, whole, replace(snapshot, present=(linked, whole)), sample)
