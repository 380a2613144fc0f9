"""Recorded cases: rebuilds the case of a node, as a domain value, from its entries."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.backtest.record import Commit, Event
from faultbridge.domain.cases import Approval, Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Action, Severity, read_component
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.domain.times import from_text
from faultbridge.pipeline.decide.relapse import start_probation

REQUEUED = frozenset({WaitingFor.ADMISSION.value})
"""What a case waits for after a failed attempt."""

_PROVEN = frozenset({Resolution.RECOVERED, Resolution.REPAIRED, Resolution.REPLACED})


def follow_case(state: NodeState, commit: Commit, limits: Limits, catalog: Catalog) -> NodeState:
    """Return a node with the changes that a recorded commit made to its case.

    If an attempt ended with a verified node, a probation of the length `limits.probation` starts.
    """
    for event in commit.of_type(EntryType.CASE_STATUS):
        state = replace(state, case=_moved(state.case, event))
        case = state.case
        verified = event["data"]["from"] == CaseStatus.IN_PROGRESS.value
        if case is not None and case.resolution in _PROVEN and verified:
            state = start_probation(state, case, catalog.row(case.code).family, limits, commit.at)
    for event in commit.notes("approval"):
        state = _answered(state, event)
    for event in commit.notes("operator"):
        state = ordered(state, str(event["data"]["facts"].get("order")))
    return state


def ordered(state: NodeState, order: str) -> NodeState:
    """Return a node after the operator order `replace`, `return` or `cancelled` changed its case.

    Any other order changes nothing. A node without a live case is returned unchanged.
    """
    case = state.live_case
    if case is None:
        return state
    if order == "replace":
        case = replace(case, cancelled=False)
    elif order == "return":
        case = replace(case, cancelled=True, uncounted=case.attempts, approval=None)
    elif order == "cancelled" and case.status is CaseStatus.IN_PROGRESS:
        case = replace(case, cancelled=True)
    elif order == "cancelled":
        case = replace(case, cancelled=True, repair_action=RepairAction.VERIFY, approval=None, not_before=None)
    return replace(state, case=case)


def _moved(before: Case | None, event: Event) -> Case:
    metadata, data = event["metadata"], event["data"]
    case = before if before is not None and before.id == metadata["case_id"] else _new_case(event)
    status = CaseStatus(data["to"])
    ended = data["from"] == CaseStatus.IN_PROGRESS.value and status is CaseStatus.QUEUED
    repeats = data["waiting_for"] in REQUEUED and data["repair_action"] == case.repair_action.value
    return replace(
        case,
        status=status,
        severity=Severity(data["severity"]),
        repair_action=RepairAction(data["repair_action"]),
        attempts=data["attempt"],
        uncounted=case.uncounted + (1 if ended and not repeats else 0),
        waiting_for=WaitingFor(data["waiting_for"]) if data["waiting_for"] else None,
        not_before=from_text(data["not_before"]) if data["not_before"] else None,
        resolution=Resolution(data["resolution"]) if data["resolution"] else None,
        incident=data.get("incident_id"),
        closed_at=None if status.live else from_text(metadata["recorded_at"]),
    )


def _new_case(event: Event) -> Case:
    data = event["data"]
    return Case(
        id=event["metadata"]["case_id"],
        status=CaseStatus.OPEN,
        opened_at=from_text(data["opened_at"]),
        code=data["cause"]["code"],
        component=read_component(data["cause"]["component"]),
        severity=Severity(data["severity"]),
        action=Action(data["action"]),
        repair_action=RepairAction(data["repair_action"]),
        rule=data["rule"],
        policy=data["policy"],
        gpus=data["gpus"],
        relapse_of=data.get("relapse_of"),
    )


def _answered(state: NodeState, event: Event) -> NodeState:
    case, facts = state.live_case, event["data"]["facts"]
    if case is None or event["data"].get("stage") != "over" or case.approval is None:
        return state
    granted = facts.get("order") == "approved"
    answered = replace(case.approval, granted=True) if granted else None
    return replace(state, case=replace(case, approval=answered))


def with_request(state: NodeState, action: RepairAction, asked_at: datetime, answer_by: datetime) -> NodeState:
    """Return a node whose live case waits for approval of a repair action.

    A node without a live case is returned unchanged.
    """
    case = state.live_case
    if case is None:
        return state
    request = Approval(case.attempts + 1, action, asked_at, answer_by)
    return replace(state, case=replace(case, approval=request, waiting_for=WaitingFor.APPROVAL))
