"""The timer of a node: when a sweep must process it even if no record arrives."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.pipeline.decide.case_moves import due_at
from tests.builders import GPU, NOON, after, node

ESCALATED = Case(
    "c-1",
    CaseStatus.ESCALATED,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    RepairAction.REPLACE_NODE,
    "default",
    "default@1",
)


def test_a_deferred_case_is_due_at_its_time_but_not_while_another_case_is_live() -> None:
    state = node(NodeStatus.QUARANTINED, case_deferred_until=after(minutes=5))
    assert due_at(state) == after(minutes=5)
    assert due_at(replace(state, case=ESCALATED)) is None
    assert due_at(replace(state, case=replace(ESCALATED, status=CaseStatus.RESOLVED))) == after(minutes=5)
