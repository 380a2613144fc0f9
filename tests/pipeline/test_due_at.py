"""Moves of a case, and the timer of its node: when a sweep must process it even if no record arrives."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.case_moves import FOREVER, continue_alone, drop_approval, due_at, escalate_case, move_case
from faultbridge.decide.decide import expire_approval
from faultbridge.model.cases import Approval, Case, Reason
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, EntryType, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.values import replace
from tests.builders import ESCALATED, NOON, after, arrival, data_of, fault, folded, node

REQUEST = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))
ASKED = replace(ESCALATED, status=CaseStatus.QUEUED, approval=REQUEST)
AWAITING = replace(
    ESCALATED,
    status=CaseStatus.OPEN,
    waiting_for=WaitingFor.CORRELATION,
    not_before=after(minutes=9),
    because=Reason("relapse"),
)
"""A case that is escalated unless an incident explains its fault."""


def test_a_deferred_case_is_due_at_its_time_but_not_while_another_case_is_live() -> None:
    state = node(NodeStatus.QUARANTINED, case_deferred_until=after(minutes=5))
    assert due_at(state) == after(minutes=5)
    assert due_at(replace(state, case_deferred_until=FOREVER)) is None
    assert due_at(replace(state, case=ESCALATED)) is None
    assert due_at(replace(state, case=replace(ESCALATED, status=CaseStatus.RESOLVED))) == after(minutes=5)


def test_a_sweep_is_due_now_for_a_node_in_service_only_when_its_faults_have_ended() -> None:
    degraded = node(NodeStatus.DEGRADED)
    assert due_at(degraded, NOON) == NOON
    assert due_at(degraded) is None
    for code in ("xid.79", "smi.row_remap_pending"):
        assert due_at(folded(degraded, arrival(fault(code))).state, NOON) is None
    for status in (None, NodeStatus.HEALTHY, NodeStatus.QUARANTINED):
        assert due_at(node(status), NOON) is None


def test_a_sweep_is_due_now_for_a_waiting_case_only_when_no_fault_requires_it() -> None:
    queued = node(case=replace(ESCALATED, status=CaseStatus.QUEUED))
    assert due_at(queued, NOON) == NOON
    assert due_at(folded(queued, arrival(fault())).state, NOON) is None
    assert due_at(replace(queued, case=ESCALATED), NOON) is None


@pytest.mark.parametrize(("status", "due"), [(CaseStatus.OPEN, after(minutes=5)), (CaseStatus.QUEUED, None)])
def test_only_a_case_that_is_not_queued_yet_is_due_at_the_end_of_its_wait(
    status: CaseStatus, due: datetime | None
) -> None:
    assert due_at(node(case=replace(ESCALATED, status=status, not_before=after(minutes=5)))) == due


@pytest.mark.parametrize(("granted", "due"), [(None, after(hours=1)), (True, None)])
def test_a_case_is_due_at_the_deadline_of_its_approval_request_until_it_is_answered(
    granted: bool | None, due: datetime | None
) -> None:
    assert due_at(node(case=replace(ASKED, approval=replace(REQUEST, granted=granted)))) == due


def test_a_case_is_escalated_at_the_deadline_of_its_approval_request_and_not_before() -> None:
    asked = Transition(node(case=ASKED))
    assert expire_approval(asked, after(minutes=59)) == asked
    case = expire_approval(asked, after(hours=1)).state.case
    assert case is not None
    assert (case.status, case.reason.partition(":")[0]) == (CaseStatus.ESCALATED, "approval timed out")


def test_an_approval_request_is_over_when_its_case_leaves_the_queue() -> None:
    still = move_case(Transition(node(case=ASKED)), replace(ASKED, because=Reason("waits")), NOON, "waits")
    assert [draft.type for draft in still.drafts] == [EntryType.CASE_STATUS]
    over, moved = escalate_case(Transition(node(case=ASKED)), ASKED, NOON, "no capacity").drafts
    assert (data_of(over)["kind"], data_of(over)["stage"], over.case_id) == ("approval", "over", "c-1")
    assert data_of(moved)["to"] == CaseStatus.ESCALATED


def test_a_first_case_of_a_node_ends_no_approval_request() -> None:
    opened = move_case(Transition(node()), ESCALATED, NOON, "opened")
    assert [draft.type for draft in opened.drafts] == [EntryType.CASE_STATUS]


@pytest.mark.parametrize(
    ("waiting_for", "reason", "then"),
    [
        (WaitingFor.APPROVAL, "asked", (WaitingFor.ADMISSION, "over")),
        (WaitingFor.BUDGET, "full", (WaitingFor.BUDGET, "full")),
    ],
)
@pytest.mark.parametrize("granted", [None, True])
def test_a_case_without_its_approval_waits_for_admission_only_if_it_waited_for_the_answer(
    waiting_for: WaitingFor, reason: str, then: tuple[WaitingFor, str], granted: bool | None
) -> None:
    asked = replace(ASKED, approval=replace(REQUEST, granted=granted), waiting_for=waiting_for, because=Reason(reason))
    case, drafts = drop_approval(asked, NOON, "over")
    assert (case.approval, case.waiting_for, case.reason) == (None, *then)
    assert [data_of(draft)["text"] for draft in drafts] == (["over"] if granted is None else [])


def test_a_case_that_no_incident_explains_is_escalated_at_the_end_of_its_wait_and_not_before() -> None:
    awaiting = Transition(folded(node(case=AWAITING), arrival(fault())).state)
    wait = timedelta(minutes=3)
    assert continue_alone(awaiting, after(minutes=2.9), after=wait) == awaiting
    case = continue_alone(awaiting, after(minutes=3), after=wait).state.case
    assert case is not None
    assert (case.status, case.reason, case.not_before) == (CaseStatus.ESCALATED, "relapse", None)


def test_a_case_whose_fault_ended_before_an_incident_explained_it_only_verifies_the_node() -> None:
    case = continue_alone(Transition(node(case=AWAITING)), NOON, after=timedelta(minutes=3)).state.case
    assert case is not None
    assert (case.status, case.repair_action, case.not_before) == (CaseStatus.QUEUED, RepairAction.VERIFY, None)


@pytest.mark.parametrize("case", [None, ESCALATED, replace(AWAITING, waiting_for=WaitingFor.WAIT)])
def test_a_case_that_awaits_no_correlation_is_left_as_it_is(case: Case | None) -> None:
    others = Transition(node(case=case))
    assert continue_alone(others, after(hours=1), after=timedelta(minutes=3)) == others
