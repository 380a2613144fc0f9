"""Case moves: change the status of a live case, draft its timeline entry and set the node's timer."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import ESCALATED_AT, Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.domain.times import earliest
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.opt_out import FOREVER
from faultbridge.pipeline.fold.claims import claim_end

SETTLE = timedelta(seconds=10)
"""How long a case waits for an incident that explains its fault. Without one, the next correlation escalates it."""

MAX_WAIT = timedelta(minutes=3)
"""The node's timer escalates a case that awaits correlation after this time, even if the correlation fails."""


def due_at(state: NodeState, now: datetime | None = None, *, case: Case | None = None) -> datetime | None:
    """Return when the minutely sweep must process the node even if no record arrives, or None.

    A node is due at `now` if its faults ended, so that only its status or its case must still change. If `now` is None,
    such a node is not due. `case` replaces the node's live case, if given.
    """
    case = case or state.live_case
    timers = [condition.quiet_until for condition in state.active()]
    timers += [
        *(claim_end(state, condition) for condition in state.active() if condition.claimed_until),
        *state.damped.values(),
    ]
    if now is not None and _recovered(state):
        timers.append(now)
    # A node with a live case opens no other: a deferred case is due when the live one is closed.
    if case is None and state.case_deferred_until is not None and state.case_deferred_until < FOREVER:
        timers.append(state.case_deferred_until)
    if case is not None and case.pending_approval is not None:
        timers.append(case.pending_approval.answer_by)
    if case is not None and case.status is CaseStatus.OPEN:
        timers.append(case.not_before)
    if case is not None and case.attempt is not None:
        timers += [case.attempt.probe_at, case.attempt.deadline]
    return earliest(*timers)


def _recovered(state: NodeState) -> bool:
    """Return whether the node may return to healthy, or its waiting case may close, because faults ended."""
    if state.status is None or not state.status.in_service or state.isolation is not Isolation.NONE:
        return False
    impaired = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    case = state.live_case
    waiting = case is not None and case.status in {CaseStatus.OPEN, CaseStatus.QUEUED} and not case.keeps_out
    unjustified = waiting and not any(condition.action.opens_case for condition in state.active())
    return unjustified or (state.status is NodeStatus.DEGRADED and not impaired)


def move_case(decided: Transition, case: Case, now: datetime, reason: str) -> Transition:
    """Replace the live case by `case`, draft the entry of its status change, and update the node's timer.

    `Case.marks` stores when the case first reached each status. If the case leaves the queue with an unanswered
    approval request, a note withdraws the request.
    """
    before = decided.state.live_case
    if case.status not in {CaseStatus.QUEUED, CaseStatus.IN_PROGRESS}:  # the status has a page of its own
        case = replace(case, capacity_since=None, wait_paged=False)
    again = {ESCALATED_AT: now} if case.status is CaseStatus.ESCALATED else {}
    first = case.marks.get(case.status.value, now)
    marked = replace(case, marks={**case.marks, case.status.value: first, **again})
    draft = entry_builder.case_change(before.status if before else None, marked, now, reason, decided.state)
    withdrawn = _withdraw_approval_request(before, case, now)
    moved = replace(decided.state, case=marked)
    return Transition(replace(moved, due_at=due_at(moved, now)), (*decided.drafts, *withdrawn, draft))


def resolve_case(decided: Transition, case: Case, now: datetime) -> Transition:
    """Close a case with the resolution `recovered`, because the faults that required it ended."""
    resolved = replace(
        case, status=CaseStatus.RESOLVED, resolution=Resolution.RECOVERED, waiting_for=None, closed_at=now
    )
    return move_case(decided, resolved, now, "all conditions ended")


def escalate_case(decided: Transition, case: Case, now: datetime, reason: str) -> Transition:
    """Escalate a case to the operators, because it cannot continue by itself."""
    escalated = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, reason=reason)
    return move_case(decided, escalated, now, reason)


def may_be_shared(state: NodeState) -> bool:
    """Return whether other nodes may share the cause of an active fault of the node.

    An incident may then explain the fault, which otherwise requires an operator.
    """
    return any(condition.family is not None for condition in state.active())


def continue_alone(decided: Transition, now: datetime, *, after: timedelta) -> Transition:
    """Let a case that awaits correlation continue without an incident that explains its fault.

    If no active fault of the node requires a case now, the case is queued at once to verify the node. Otherwise, the
    case is escalated to the operators after it was open for `after`. A case that does not await correlation is
    unchanged.
    """
    case = decided.state.live_case
    if case is None or not case.awaits_correlation:
        return decided
    alone = replace(case, not_before=None)
    if not any(condition.action.opens_case for condition in decided.state.active()):
        # No fault that comes back before admission may turn the verification into a repair.
        verified = replace(alone, repair_action=RepairAction.VERIFY)
        queued = replace(verified, status=CaseStatus.QUEUED, waiting_for=WaitingFor.ADMISSION)
        return move_case(decided, queued, now, "all conditions ended")
    return escalate_case(decided, alone, now, case.reason) if now >= case.opened_at + after else decided


def drop_approval(case: Case, now: datetime, text: str) -> tuple[Case, tuple[Draft, ...]]:
    """Return the case without its approval or approval request, and the entries that record this.

    For an unanswered request, the entry is a note with `text`; otherwise there is no entry. A case that waited for the
    answer then waits for admission, which requests approval again if the next attempt requires it.
    """
    drafts = () if case.pending_approval is None else (_approval_over(case, now, text),)
    if case.waiting_for is WaitingFor.APPROVAL:
        case = replace(case, waiting_for=WaitingFor.ADMISSION, reason=text)
    return replace(case, approval=None), drafts


def _withdraw_approval_request(before: Case | None, case: Case, now: datetime) -> tuple[Draft, ...]:
    if before is None or before.pending_approval is None or case.status is CaseStatus.QUEUED:
        return ()
    return (_approval_over(case, now, "Approval no longer required: the case continued without an answer."),)


def _approval_over(case: Case, now: datetime, text: str) -> Draft:
    return entry_builder.note(kind="approval", text=text, at=now, case_id=case.id, stage="over")
