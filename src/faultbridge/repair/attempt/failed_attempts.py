"""State changes that end a failed attempt: escalate the case to an operator, or queue it again."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, RepairAction, WaitingFor
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.case_moves import move_case
from faultbridge.pipeline.decide.governing_rules import Requirement, with_requirement
from faultbridge.repair.attempt.progress import live_attempt, move_node, stop_timers

BECOME_FAILED = frozenset(
    {
        NodeStatus.DRAINING,
        NodeStatus.REPAIRING,
        NodeStatus.REPLACING,
        NodeStatus.PROVISIONING,
        NodeStatus.VALIDATING,
    }
)
"""A node in one of these statuses becomes `failed` when its case is escalated."""

BECOME_QUARANTINED = frozenset({NodeStatus.DRAINING, NodeStatus.REPAIRING, NodeStatus.REPLACING, NodeStatus.VALIDATING})
"""A node in one of these statuses becomes `quarantined` again when its case is queued again."""

FIRST_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(minutes=30)
MAX_RETRY_DOUBLINGS = 5
"""Enough doublings to reach the longest delay; a case may wait for capacity for hundreds of attempts."""


def escalate_case(
    state: NodeState, now: datetime, reason: str, *, drafts: tuple[Draft, ...] = (), fails: bool = True
) -> Transition:
    """End the attempt and escalate the case to an operator.

    If `BECOME_FAILED` lists the status of the node, the node becomes `failed`. With `fails=False` the node keeps its
    status, because nothing proves that the node is faulty.
    """
    if fails and state.status in BECOME_FAILED:
        state, draft = move_node(state, NodeStatus.FAILED, now, reason)
        drafts = (*drafts, draft)
    case, attempt = live_attempt(state)
    escalated = replace(case, status=CaseStatus.ESCALATED, attempt=stop_timers(attempt), reason=reason)
    return move_case(Transition(state, drafts), escalated, now, reason)


def requeue_case(
    state: NodeState,
    now: datetime,
    waiting_for: WaitingFor,
    reason: str,
    *,
    drafts: tuple[Draft, ...] = (),
    repair_action: RepairAction | None = None,
    requirement: Requirement | None = None,
    not_before: datetime | None = None,
) -> Transition:
    """End the attempt and queue the case again, which releases its repair slot.

    If `BECOME_QUARANTINED` lists the status of the node, the node becomes `quarantined` again.

    - `repair_action`: the repair action of the next attempt. None means the action of the case. If the ended attempt
      was verifying the node and has no intent, None means `verify`, because another controller may have replaced the
      instance. For a canceled case, the next action is always `verify`.
    - `requirement`: the condition that requires a stronger repair action, with its policy rule, or None. This rule
      becomes the rule of the case.
    - `not_before`: the earliest time of the next attempt; None if it may start at once.
    """
    case, attempt = live_attempt(state)
    verifying = state.status is NodeStatus.VALIDATING and attempt.intent is None
    if case.cancelled or (verifying and repair_action is None):
        repair_action = RepairAction.VERIFY
    if state.status in BECOME_QUARANTINED:
        state, draft = move_node(state, NodeStatus.QUARANTINED, now, reason)
        drafts = (*drafts, draft)
    queued = replace(
        with_requirement(case, requirement) if requirement else case,
        status=CaseStatus.QUEUED,
        attempt=None,
        repair_action=repair_action or case.repair_action,
        waiting_for=waiting_for,
        not_before=not_before,
        reason=reason,
        capacity_since=(case.capacity_since or now) if waiting_for is WaitingFor.CAPACITY else case.capacity_since,
    )
    return move_case(Transition(state, drafts), queued, now, reason)


def exclude_attempt(transition: Transition) -> Transition:
    """Return the transition with its ended attempt excluded from the policy's limit of attempts."""
    case = transition.state.live_case
    if case is None:
        return transition
    return replace(transition, state=replace(transition.state, case=replace(case, uncounted=case.uncounted + 1)))


def retry_time(case: Case, now: datetime) -> datetime:
    """Return when a case may be retried: after one minute, doubled with each attempt up to 30 minutes."""
    return now + min(FIRST_RETRY_DELAY * (1 << min(max(case.attempts - 1, 0), MAX_RETRY_DOUBLINGS)), MAX_RETRY_DELAY)
