"""State changes of an attempt that has not ended: start a step, schedule a probe, record an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import due_at, move_case
from faultbridge.decide.governing_rules import Requirement, with_requirement
from faultbridge.model.cases import Attempt, Case, Phase, Reason
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_contract import AttemptSuperseded, StepOutcome

LEASE = timedelta(minutes=3)
"""Longer than any call of a step: until the lease ends, the sweep leaves the attempt alone."""

MAX_PROBE_INTERVAL = timedelta(minutes=10)
MAX_PROBE_DOUBLINGS = 16
"""Limits the exponent of the doubling; the interval reaches its maximum long before."""


def live_attempt(state: NodeState) -> tuple[Case, Attempt]:
    """Return the live case of a node and its attempt, else raise AttemptSuperseded."""
    case = state.live_case
    if case is None or case.attempt is None:
        raise AttemptSuperseded
    return case, case.attempt


def update_attempt(
    state: NodeState,
    marks: Mapping[str, datetime] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of Attempt
) -> NodeState:
    """Change fields of the node's current attempt (and `Case.marks`), and compute its next timer."""
    case, attempt = live_attempt(state)
    changed = replace(case, attempt=replace(attempt, **changes), marks=case.marks if marks is None else marks)
    return replace(state, case=changed, due_at=due_at(state, case=changed))


def start_or_resume_step(
    state: NodeState, step: str, token: str | None, now: datetime, timeout: timedelta
) -> NodeState:
    """Start a step, with a deadline after `timeout`, or resume it with its old deadline."""
    _, attempt = live_attempt(state)
    if attempt.step == step:
        return update_attempt(state, task_token=token or attempt.task_token, probe_at=now + LEASE)
    return update_attempt(
        state, step=step, since=now, tries=0, deadline=now + timeout, task_token=token, probe_at=now + LEASE
    )


def schedule_probe(state: NodeState, now: datetime, first: timedelta) -> NodeState:
    """Schedule the next probe of a waiting step; `first` is the time until the first probe of the step."""
    _, attempt = live_attempt(state)
    at = probe_time(attempt.tries, attempt.deadline, now, first)
    return update_attempt(state, tries=attempt.tries + 1, probe_at=at)


def probe_time(tries: int, deadline: datetime | None, now: datetime, first: timedelta) -> datetime:
    """Return when a step is probed next: doubling intervals, but not later than a coming deadline."""
    at = now + min(first * (1 << min(tries, MAX_PROBE_DOUBLINGS)), MAX_PROBE_INTERVAL)
    return min(at, deadline) if deadline is not None and deadline > now else at


def enter_phase(state: NodeState, phase: Phase, now: datetime) -> NodeState:
    """Move the attempt into a phase, such as draining. The case records when it first entered each phase."""
    case, _ = live_attempt(state)
    return update_attempt(state, {phase.value: now, **case.marks}, phase=phase)


def record_outcome(state: NodeState, step: str, outcome: StepOutcome, phase: Phase, now: datetime) -> NodeState:
    """Record the outcome of a step, and move the attempt into the next phase.

    The Step Functions task token is kept until the next step starts. If the execution did not receive the outcome, the
    recovery can therefore send the outcome again.
    """
    case, attempt = live_attempt(state)
    steps, marks = {**attempt.steps, step: outcome.value}, {phase.value: now, **case.marks}
    return update_attempt(state, marks, phase=phase, steps=steps, tries=0, deadline=None, probe_at=now + LEASE)


def stop_timers(attempt: Attempt) -> Attempt:
    """Remove task token, probe time and deadline from an attempt that has ended."""
    return replace(attempt, task_token=None, probe_at=None, deadline=None)


def move_node(state: NodeState, target: NodeStatus, now: datetime, reason: str | Reason) -> tuple[NodeState, Draft]:
    """Change the status of a node, and draft the entry that records the change."""
    return replace(state, status=target), entry_builder.status_change(state, target, now, reason)


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
    state: NodeState, now: datetime, reason: str | Reason, *, drafts: tuple[Draft, ...] = (), fails: bool = True
) -> Transition:
    """End the attempt and escalate the case to an operator.

    If `BECOME_FAILED` lists the status of the node, the node becomes `failed`. With `fails=False` the node keeps its
    status, because nothing proves that the node is faulty.
    """
    if fails and state.status in BECOME_FAILED:
        state, draft = move_node(state, NodeStatus.FAILED, now, reason)
        drafts = (*drafts, draft)
    case, attempt = live_attempt(state)
    escalated = replace(case, status=CaseStatus.ESCALATED, attempt=stop_timers(attempt), because=Reason.of(reason))
    return move_case(Transition(state, drafts), escalated, now, reason)


def requeue_case(
    state: NodeState,
    now: datetime,
    waiting_for: WaitingFor,
    reason: str | Reason,
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
        because=Reason.of(reason),
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
