"""Which cases an incident holds, and how the case of a node continues after its incident."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from faultbridge.decide.correlate.held_cases import absorb, families_of, release
from faultbridge.model.cases import Approval, Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import (
    CaseStatus,
    DomainKind,
    IncidentStatus,
    Isolation,
    NodeStatus,
    RepairAction,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Family, Severity
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, POLICY, after, arrival, data_of, fault, folded, node

CASE = Case(
    "c-1",
    CaseStatus.ABSORBED,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    RepairAction.REPLACE_NODE,
    "default",
    "default@1",
    incident="i-1",
    marks={CaseStatus.OPEN.value: NOON},
)


def faulty(case: Case | None) -> NodeState:
    return folded(node(NodeStatus.DEGRADED, case=case), arrival(fault())).state


@pytest.mark.parametrize("status", [None, *(one for one in CaseStatus if one is not CaseStatus.ABSORBED)])
def test_a_node_whose_case_does_not_wait_for_an_incident_is_not_changed(status: CaseStatus | None) -> None:
    state = faulty(replace(CASE, status=status) if status else None)
    released = release(state, POLICY, NOON, "incident i-1 is closed")
    assert (released.state, released.drafts) == (state, ())


def test_a_faulty_node_waits_for_an_incident_that_holds_and_is_queued_when_none_does() -> None:
    state = faulty(CASE)
    assert release(state, POLICY, NOON, "closed", ["i-1"]).state == state
    queued = release(state, POLICY, NOON, "closed", ["i-2"]).state.live_case
    assert queued is not None
    assert (queued.status, queued.incident, queued.reason) == (CaseStatus.QUEUED, None, "closed")


def test_the_case_of_a_node_that_recovered_is_resolved_even_while_the_incident_holds() -> None:
    released = release(node(NodeStatus.DEGRADED, case=CASE), POLICY, NOON, "closed", ["i-1"])
    assert (released.state.live_case, data_of(released.drafts[0])["to"]) == (None, CaseStatus.RESOLVED)


INCIDENT = Incident(
    "i-2", "c", Family.NETWORK, FailureDomain(DomainKind.RACK, "r-1"), IncidentStatus.OPEN, NOON, NOON, "net.link_down",
    affected=3, of=4,
)  # fmt: skip
SUMMARY = "3 of 4 nodes of rack r-1 have network faults"
APPROVAL = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))


def cut_off(status: CaseStatus, code: str = "net.link_down", **others: Any) -> NodeState:
    """Return a node whose link is down, with a case in this status that no incident holds."""
    case = replace(CASE, status=status, **({"incident": None} | others))
    return folded(node(NodeStatus.DEGRADED, case=case), arrival(fault(code))).state


def absorbed(state: NodeState) -> Case | None:
    """Return the case of a node after the incident absorbed it; None if the incident left it alone."""
    moved = absorb(state, INCIDENT, NOON)
    assert (moved.drafts == ()) is (moved.state == state)
    return moved.state.case if moved.drafts else None


@pytest.mark.parametrize(
    ("state", "held"),
    [
        (cut_off(CaseStatus.OPEN), True),
        (cut_off(CaseStatus.QUEUED), True),
        (cut_off(CaseStatus.ESCALATED), True),
        (cut_off(CaseStatus.ESCALATED, attempt=Attempt(1, Phase.ACTED)), False),
        (cut_off(CaseStatus.IN_PROGRESS), False),
        (cut_off(CaseStatus.ABSORBED, incident="i-2"), False),
        (cut_off(CaseStatus.QUEUED, cancelled=True), False),
        (cut_off(CaseStatus.RESOLVED), False),
        (cut_off(CaseStatus.QUEUED, "xid.79"), False),
        (cut_off(CaseStatus.QUEUED, "xid.79", marks={Phase.INTENT.value: NOON}), True),
        (cut_off(CaseStatus.ESCALATED, approval=replace(APPROVAL, granted=False)), False),
        (cut_off(CaseStatus.QUEUED, approval=replace(APPROVAL, granted=False)), True),
    ],
)
def test_an_incident_holds_cases_that_no_attempt_and_no_operator_decided(state: NodeState, held: bool) -> None:
    assert (absorbed(state) is not None) is held


def test_a_node_that_an_operator_quarantined_stays_escalated() -> None:
    for status, held in ((CaseStatus.ESCALATED, False), (CaseStatus.QUEUED, True)):
        state = folded(cut_off(status), arrival(fault("operator.quarantine"))).state
        assert (absorbed(state) is not None) is held


@pytest.mark.parametrize(
    ("status", "waiting_for", "before", "reason"),
    [
        (CaseStatus.QUEUED, WaitingFor.ADMISSION, CaseStatus.QUEUED, f"waits for incident i-2: {SUMMARY}"),
        (CaseStatus.ESCALATED, None, CaseStatus.ESCALATED, "needs support"),
        (CaseStatus.OPEN, WaitingFor.CORRELATION, CaseStatus.ESCALATED, "needs support"),
        (CaseStatus.OPEN, WaitingFor.WAIT, CaseStatus.OPEN, f"waits for incident i-2: {SUMMARY}"),
    ],
)
def test_a_held_case_remembers_what_it_was_and_why_it_needs_an_operator(
    status: CaseStatus, waiting_for: WaitingFor | None, before: CaseStatus, reason: str
) -> None:
    case = absorbed(cut_off(status, waiting_for=waiting_for, not_before=NOON, because=Reason("needs support")))
    assert case is not None
    assert (case.status, case.waiting_for, case.incident) == (CaseStatus.ABSORBED, WaitingFor.INCIDENT, "i-2")
    assert (case.held_from, case.not_before, case.reason) == (before, None, reason)


@pytest.mark.parametrize("granted", [True, None])
def test_a_held_case_keeps_its_approval_and_gives_an_unanswered_request_up(granted: bool | None) -> None:
    asked = replace(APPROVAL, granted=granted)
    case = absorbed(cut_off(CaseStatus.QUEUED, approval=asked))
    assert case is not None
    assert case.approval == (asked if granted else None)


@pytest.mark.parametrize(
    ("held_from", "reason"),
    [(CaseStatus.ESCALATED, "needs support"), (CaseStatus.QUEUED, f"waits for incident i-2: {SUMMARY}")],
)
def test_a_case_that_passes_to_another_incident_keeps_why_it_needs_an_operator(
    held_from: CaseStatus, reason: str
) -> None:
    case = absorbed(cut_off(CaseStatus.ABSORBED, incident="i-1", held_from=held_from, because=Reason("needs support")))
    assert case is not None
    assert (case.incident, case.held_from, case.reason) == ("i-2", held_from, reason)


def test_a_failed_attempt_states_that_the_incident_explains_it() -> None:
    case = absorbed(cut_off(CaseStatus.QUEUED, "xid.79", marks={Phase.INTENT.value: NOON}))
    assert case is not None
    assert case.reason == f"the last attempt failed, and incident i-2 explains it: {SUMMARY}"


def test_a_node_without_a_case_is_not_changed() -> None:
    state = replace(cut_off(CaseStatus.QUEUED), case=None)
    assert absorbed(state) is None
    assert families_of(state) == {Family.NETWORK}
    assert families_of(faulty(None)) == frozenset()


def released(state: NodeState, policy: Policy = POLICY) -> Case:
    """Return the case of a node after its incident was closed."""
    case = release(state, policy, NOON, "closed").state.case
    assert case is not None
    return case


@pytest.mark.parametrize(
    ("seconds", "waiting_for", "not_before"),
    [(0, WaitingFor.ADMISSION, None), (90, WaitingFor.WAIT, after(seconds=90))],
)
def test_a_faulty_node_waits_again_as_its_rule_says(
    seconds: int, waiting_for: WaitingFor, not_before: datetime | None
) -> None:
    case = released(faulty(CASE), Policy("p", (Rule("default", wait_seconds=seconds),)))
    assert (case.status, case.waiting_for, case.not_before) == (CaseStatus.QUEUED, waiting_for, not_before)
    assert case.repair_action is RepairAction.REPLACE_NODE


@pytest.mark.parametrize("marks", [{}, {Phase.INTENT.value: NOON}])
def test_an_isolated_node_whose_faults_are_over_is_only_verified_at_once_and_keeps_its_incident(
    marks: dict[str, datetime],
) -> None:
    case = replace(CASE, marks=marks)
    for status, isolation in ((NodeStatus.QUARANTINED, Isolation.NONE), (NodeStatus.DEGRADED, Isolation.REQUESTED)):
        queued = released(
            node(status, case=case, isolation=isolation), Policy("p", (Rule("default", wait_seconds=90),))
        )
        assert (queued.status, queued.waiting_for, queued.not_before) == (
            CaseStatus.QUEUED, WaitingFor.ADMISSION, None,
        )  # fmt: skip
        assert (queued.incident, queued.repair_action) == ("i-1", RepairAction.VERIFY)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (faulty(replace(CASE, held_from=CaseStatus.ESCALATED, because=Reason("needs support"))), CaseStatus.ESCALATED),
        (node(NodeStatus.QUARANTINED, case=replace(CASE, held_from=CaseStatus.ESCALATED)), CaseStatus.QUEUED),
    ],
)
def test_a_case_that_needs_an_operator_is_escalated_again_if_its_node_is_still_faulty(
    state: NodeState, status: CaseStatus
) -> None:
    case = released(state)
    assert (case.status, case.held_from) == (status, None)
    assert status is CaseStatus.QUEUED or (case.reason, case.incident) == ("needs support", None)
