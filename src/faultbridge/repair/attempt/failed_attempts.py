"""Endings: an attempt that does not end in a verified node goes back to the queue or to a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Attempt, Case, RepairAction, WaitingFor
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.decide import move_case
from faultbridge.repair.attempt.progress import live, moved

FAILING = frozenset(
    {
        NodeStatus.DRAINING,
        NodeStatus.REPAIRING,
        NodeStatus.REPLACING,
        NodeStatus.PROVISIONING,
        NodeStatus.VALIDATING,
    }
)
SET_BACK = frozenset({NodeStatus.DRAINING, NodeStatus.REPAIRING, NodeStatus.REPLACING, NodeStatus.VALIDATING})
FIRST_PAUSE = timedelta(minutes=1)
MAX_PAUSE = timedelta(minutes=30)
DOUBLINGS = 5
"""As often as it takes to the longest pause; a case may wait for capacity for weeks and hundreds of attempts."""


def escalated(
    state: NodeState, now: datetime, reason: str, *, drafts: tuple[Draft, ...] = (), fails: bool = True
) -> Transition:
    """Hand the case to a person; the node is `failed` unless it is only not proven good."""
    if fails and state.status in FAILING:
        state, draft = moved(state, NodeStatus.FAILED, now, reason)
        drafts = (*drafts, draft)
    case, attempt = live(state)
    handed = replace(case, status=CaseStatus.ESCALATED, attempt=_at_rest(attempt), reason=reason)
    return _finished(Transition(state, drafts), handed, now, reason)


def requeued(
    state: NodeState,
    now: datetime,
    waiting_for: WaitingFor,
    reason: str,
    *,
    drafts: tuple[Draft, ...] = (),
    repair_action: RepairAction | None = None,
    not_before: datetime | None = None,
) -> Transition:
    """Put the case back into the queue, the node back into quarantine and the slot back to the cluster."""
    if state.status in SET_BACK:
        state, draft = moved(state, NodeStatus.QUARANTINED, now, reason)
        drafts = (*drafts, draft)
    case, _ = live(state)
    waiting = replace(
        case,
        status=CaseStatus.QUEUED,
        attempt=None,
        repair_action=repair_action or case.repair_action,
        waiting_for=waiting_for,
        not_before=not_before,
        reason=reason,
    )
    return _finished(Transition(state, drafts), waiting, now, reason)


def uncounted(revision: Transition) -> Transition:
    """Let the attempt that ended be none of those that the policy allows."""
    case = revision.state.live_case
    if case is None:
        return revision
    return replace(revision, state=replace(revision.state, case=replace(case, uncounted=case.uncounted + 1)))


def again_at(case: Case, now: datetime) -> datetime:
    """Return when a case may be tried again: a minute after the first attempt, doubling to half an hour."""
    return now + min(FIRST_PAUSE * (1 << min(max(case.attempts - 1, 0), DOUBLINGS)), MAX_PAUSE)


def _at_rest(attempt: Attempt) -> Attempt:
    return replace(attempt, task_token=None, probe_at=None, deadline=None)


def _finished(decided: Transition, case: Case, now: datetime, reason: str) -> Transition:
    done = move_case(decided, case, now, reason)
    return Transition(done.state, done.drafts)
