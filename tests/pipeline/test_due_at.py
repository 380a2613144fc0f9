"""Moves of a case, and the timer of its node: when a sweep must process it even if no record arrives."""

from __future__ import annotations

from dataclasses import replace

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Approval, Case, RepairAction
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Action, Severity
from faultbridge.pipeline.decide.case_moves import due_at, escalate_case, move_case
from tests.builders import GPU, NOON, after, arrival, fault, folded, node

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


def test_a_sweep_is_due_now_for_a_node_in_service_only_when_its_faults_have_ended() -> None:
    degraded = node(NodeStatus.DEGRADED)
    assert due_at(degraded, NOON) == NOON
    assert due_at(degraded) is None
    assert due_at(folded(degraded, arrival(fault())).state, NOON) is None
    for status in (None, NodeStatus.HEALTHY, NodeStatus.QUARANTINED):
        assert due_at(node(status), NOON) is None


def test_a_sweep_is_due_now_for_a_waiting_case_only_when_no_fault_requires_it() -> None:
    queued = node(case=replace(ESCALATED, status=CaseStatus.QUEUED))
    assert due_at(queued, NOON) == NOON
    assert due_at(folded(queued, arrival(fault())).state, NOON) is None
    assert due_at(replace(queued, case=ESCALATED), NOON) is None


def test_an_approval_request_is_over_when_its_case_leaves_the_queue() -> None:
    request = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))
    queued = replace(ESCALATED, status=CaseStatus.QUEUED, approval=request)
    still = move_case(Transition(node(case=queued)), replace(queued, reason="waits"), NOON, "waits")
    assert [draft.type for draft in still.drafts] == [EntryType.CASE_STATUS]
    over, moved = escalate_case(Transition(node(case=queued)), queued, NOON, "no capacity").drafts
    assert (over.data["kind"], over.data["stage"], over.case_id) == ("approval", "over", "c-1")
    assert moved.data["to"] == CaseStatus.ESCALATED


def test_a_first_case_of_a_node_ends_no_approval_request() -> None:
    opened = move_case(Transition(node()), ESCALATED, NOON, "opened")
    assert [draft.type for draft in opened.drafts] == [EntryType.CASE_STATUS]
