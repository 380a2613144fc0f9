"""Phase durations: the phases of a case cover its time, and a case without marks has none."""

from __future__ import annotations

import pytest

from faultbridge.decide.entry_builder import durations, gpu_time_lost, total_gpu_time
from faultbridge.model.cases import OUT_OF_SERVICE, Phase
from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.values import replace
from tests.builders import after, case


def test_a_case_without_marks_has_no_phases() -> None:
    assert durations(replace(case(RepairAction.REPLACE_NODE), marks={}), after(minutes=1)) == {}


def test_the_phases_of_a_case_follow_each_other_until_the_end() -> None:
    marks = {CaseStatus.QUEUED: after(minutes=2), CaseStatus.OPEN: after(minutes=1)}
    found = durations(replace(case(RepairAction.REPLACE_NODE), marks=marks), after(minutes=5))
    assert list(found.items()) == [(CaseStatus.OPEN, 60_000), (CaseStatus.QUEUED, 180_000)]


def test_the_status_that_closes_a_case_is_no_phase() -> None:
    marks = {CaseStatus.OPEN: after(), CaseStatus.RESOLVED: after(minutes=1)}
    assert durations(case(RepairAction.VERIFY, marks=marks), after(minutes=1)) == {CaseStatus.OPEN: 60_000}


def test_phases_that_were_reached_at_the_same_time_keep_their_normal_order() -> None:
    reached = (Phase.DRAINING, "unknown", CaseStatus.IN_PROGRESS, CaseStatus.OPEN, "detected", CaseStatus.QUEUED)
    found = durations(replace(case(RepairAction.REPLACE_NODE), marks=dict.fromkeys(reached, after())), after(minutes=1))
    expected = ["detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, Phase.DRAINING, "unknown"]
    assert list(found) == expected
    assert sum(found.values()) == found["unknown"] == 60_000


@pytest.mark.parametrize(("gpus", "out", "lost"), [(8, True, 240_000), (8, False, 0), (None, True, None)])
def test_gpu_time_is_lost_from_the_first_moment_a_node_is_out_of_service(
    gpus: int | None, out: bool, lost: int | None
) -> None:
    marks = {CaseStatus.OPEN: after()} | ({OUT_OF_SERVICE: after(seconds=30)} if out else {})
    waiting = case(RepairAction.REPLACE_NODE, gpus=gpus, marks=marks)
    assert gpu_time_lost(waiting, after(minutes=1)) == lost
    assert gpu_time_lost(waiting, after(minutes=1), after(minutes=2)) == (None if gpus is None else 0)


def test_a_sum_of_gpu_times_is_unknown_only_if_no_case_is_known() -> None:
    assert [total_gpu_time(one) for one in ((), (5, None), (None,), (3, 4))] == [0, 5, None, 7]
