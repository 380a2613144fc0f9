"""Held cases: how a case waits for a cluster incident, and how it is released afterwards."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from faultbridge.decide.case_moves import escalate_case, move_case, resolve_case
from faultbridge.decide.fold.expire import ORDERED_QUARANTINE
from faultbridge.decide.governing_rules import rule_of_case
from faultbridge.model.cases import Case, Reason
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, Isolation, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import NodeState, is_faulty, is_repeated
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace

_ABSORBABLE = frozenset({CaseStatus.OPEN, CaseStatus.QUEUED})


def families_of(state: NodeState) -> frozenset[Family]:
    """Return the fault families of a node's active conditions."""
    return frozenset(condition.family for condition in state.active() if condition.family is not None)


def is_absorbable(case: Case | None) -> bool:
    """Return whether a case may wait for an incident: open, queued or escalated without attempt, not canceled."""
    if case is None or case.cancelled:
        return False
    never_attempted = case.status is CaseStatus.ESCALATED and case.attempt is None
    return case.status in _ABSORBABLE or never_attempted


def absorb(state: NodeState, incident: Incident, now: datetime) -> Transition:
    """Let the case of an affected node wait for this incident, even if it waits for another incident now.

    The node is unchanged if one of these is true:

    - It has no live case, or its case already waits for this incident.
    - It has no fault of the incident's family, and its next repair does not follow a failed attempt (`is_repeated`).
      After a failed attempt, the case waits without such a fault too, because the incident may be why the attempt
      failed.
    - The case waits for no incident, and it is not allowed to wait (`is_absorbable`).
    - The case is escalated, and an operator denied its approval or quarantined the node. After the incident, the case
      would be escalated again, which would page operators about their own decision.

    An unanswered approval request is withdrawn. The isolation of the node does not change.
    """
    case = state.live_case
    affected = incident.family in families_of(state)
    if case is None or not (affected or is_repeated(state)):
        return Transition(state)
    reason = _reason(incident) if affected else _reason_of_repeated(incident)
    if case.status is CaseStatus.ABSORBED and case.incident != incident.id:
        kept = case.because if case.held_from is CaseStatus.ESCALATED else reason
        return move_case(Transition(state), replace(case, incident=incident.id, because=kept), now, reason)
    if not is_absorbable(case) or _is_kept_by_operator(state, case):
        return Transition(state)
    needs_operator = case.status is CaseStatus.ESCALATED or case.awaits_correlation
    held = replace(
        case,
        status=CaseStatus.ABSORBED,
        waiting_for=WaitingFor.INCIDENT,
        incident=incident.id,
        held_from=CaseStatus.ESCALATED if needs_operator else case.status,
        not_before=None,
        approval=case.approval if case.approved else None,
        because=case.because if needs_operator else reason,
    )
    return move_case(Transition(state), held, now, reason)


def release(state: NodeState, policy: Policy, now: datetime, reason: str, holding: Collection[str] = ()) -> Transition:
    """Release a node's case that waits for an incident. Any other case is unchanged.

    The first of these rules that applies decides:

    - The node is faulty, and the id of the incident is in `holding`: the case continues to wait.
    - The node is not faulty, in service and not isolated: the case is resolved.
    - Any other node that is not faulty: the case is queued for a verification, because the shared cause may have made
      an earlier repair fail.
    - The case was escalated or awaited correlation before it waited: it is escalated.
    - Any other case is queued, with a new waiting period if its rule has one.

    `holding` contains the ids of the incidents for which cases still wait. `reason` is the reason of a case that is
    queued.
    """
    case = state.live_case
    if case is None or case.status is not CaseStatus.ABSORBED:
        return Transition(state)
    faulty = is_faulty(state)
    if faulty and case.incident in holding:
        return Transition(state)
    # A case that is only verified keeps its incident, which explains why the node is still out of service.
    released = replace(case, incident=case.incident if not faulty else None, held_from=None)
    in_service = state.status is not None and state.status.in_service
    if not faulty and in_service and state.isolation is Isolation.NONE:
        return resolve_case(Transition(state), released, now)
    if faulty and case.held_from is CaseStatus.ESCALATED:
        return escalate_case(Transition(state), released, now, case.because)
    wait = timedelta(seconds=rule_of_case(state, case, policy).wait_seconds if faulty else 0)
    queued = replace(
        released,
        status=CaseStatus.QUEUED,
        repair_action=case.repair_action if faulty else RepairAction.VERIFY,
        waiting_for=WaitingFor.WAIT if wait else WaitingFor.ADMISSION,
        not_before=now + wait if wait else None,
        because=Reason(reason),
    )
    return move_case(Transition(state), queued, now, reason)


def _is_kept_by_operator(state: NodeState, case: Case) -> bool:
    denied = case.approval is not None and case.approval.granted is False
    ordered = any(condition.code == ORDERED_QUARANTINE for condition in state.active())
    return case.status is CaseStatus.ESCALATED and (denied or ordered)


def _reason(incident: Incident) -> Reason:
    return Reason(incident.summary, lead=f"waits for incident {incident.id}")


def _reason_of_repeated(incident: Incident) -> Reason:
    return Reason(incident.summary, lead=f"the last attempt failed, and incident {incident.id} explains it")
