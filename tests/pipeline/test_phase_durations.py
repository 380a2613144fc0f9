"""Phase durations: the phases of a case cover its time, and a case without marks has none."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.edges import CaseStatus
from faultbridge.pipeline.decide.phase_durations import durations
from tests.builders import after
from tests.pipeline.test_repair_actions import case


def test_a_case_without_marks_has_no_phases() -> None:
    assert durations(replace(case(RepairAction.REPLACE_NODE), marks={}), after(minutes=1)) == {}


def test_the_phases_of_a_case_follow_each_other_until_the_end() -> None:
    marks = {CaseStatus.QUEUED: after(minutes=2), CaseStatus.OPEN: after(minutes=1)}
    found = durations(replace(case(RepairAction.REPLACE_NODE), marks=marks), after(minutes=5))
    assert list(found.items()) == [(CaseStatus.OPEN, 60_000), (CaseStatus.QUEUED, 180_000)]
