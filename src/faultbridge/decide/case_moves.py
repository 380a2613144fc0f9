"""Case moves: change the status of a live case, draft its timeline entry and set the node's timer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from faultbridge.decide import entry_builder
from faultbridge.decide.fold.changes import Folded
from faultbridge.decide.fold.claims import claim_end
from faultbridge.model.cases import ESCALATED_AT, HELD_SINCE, Case, Reason, case_id
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, NoteKind, RepairAction, Resolution, WaitingFor
from faultbridge.model.fault_enums import Action, Family, Severity
from faultbridge.model.faults import Component
from faultbridge.model.nodes import Ignored, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.times import earliest, to_text
from faultbridge.model.values import replace

DETECTED = "detected"
"""The key in `Case.marks` for the time since which the fault behind the case is active."""


class Rules(Struct, frozen=True):
    """The input of a decision besides the node; the decisions of the `shadow` policy are only recorded."""

    policy: Policy
    config: ClusterConfig
    catalog: Catalog
    stack_id: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    shadow: Policy | None = None


class Cause(Struct, frozen=True):
    """The fault or event that opens a case. `since` is its first observation, or None if unknown."""

    code: str
    mode: str
    component: Component
    severity: Severity
    action: Action
    since: datetime | None = None


def open_case(
    transition: Transition,
    cause: Cause,
    rules: Rules,
    now: datetime,
    *,
    rule: str,
    repair_action: RepairAction,
    reason: str,
    isolate: bool = False,
    wait_seconds: int | None = None,
    waiting_for: WaitingFor = WaitingFor.WAIT,
    gpus: int | None = None,
    relapse_of: str | None = None,
) -> Transition:
    """Open a case on a node. With `wait_seconds`, the case first waits that long, and `waiting_for` states why."""
    state = transition.state
    case = Case(
        id=case_id(rules.stack_id, state.key.cluster, state.key.node, state.head.epoch, state.head.sequence + 1),
        status=CaseStatus.OPEN,
        opened_at=now,
        code=cause.code,
        mode=cause.mode,
        component=cause.component,
        severity=cause.severity,
        action=cause.action,
        repair_action=repair_action,
        rule=rule,
        policy=rules.policy.version,
        isolate=isolate,
        waiting_for=waiting_for if wait_seconds else None,
        not_before=None if wait_seconds is None else now + timedelta(seconds=wait_seconds),
        marks={**({DETECTED: cause.since} if cause.since else {}), CaseStatus.OPEN.value: now},
        previous_case=state.case.id if state.case else None,
        gpus=gpus,
        relapse_of=relapse_of,
    )
    draft = entry_builder.case_change(None, case, now, reason, state)
    return replace(transition, state=replace(state, case=case), drafts=(*transition.drafts, draft))


# Faults of an excluded node are still recorded. `repair/node_orders.py` applies operators' orders to ignore a node.

FOREVER = datetime(9999, 12, 31, tzinfo=UTC)

LABEL = "label"
"""The value of `Ignored.by` if a tag of the instance or a label of the Kubernetes node excludes the node."""

LEAVING = "provider.instance_ended"
"""The failure mode of an instance that its owner terminates or stops."""


def opted_out_until(state: NodeState, config: ClusterConfig, now: datetime) -> datetime | None:
    """Return until when a node is excluded from repairs (`FOREVER` without an end), or None."""
    ignored = (state.ignored.until or FOREVER) if state.ignored else None
    ends = [end for end in (ignored, config.maintenance_until) if end is not None and end > now]
    return max(ends, default=None)


def exclusion_reason(state: NodeState, config: ClusterConfig, now: datetime) -> str | None:
    """Return why a node is excluded from repairs, and until when; None if it is not excluded now."""
    until = opted_out_until(state, config, now)
    if until is None:
        return None
    reason = "the node is ignored or its cluster is under maintenance"
    return f"{reason} until {to_text(until)}" if until < FOREVER else reason


def deferred_until(state: NodeState, condition: Condition, config: ClusterConfig, now: datetime) -> datetime | None:
    """Return until when an exclusion, or the update of a group, keeps a condition from opening a case."""
    hold = config.update_hold(state.placement.group, now) if is_absence(condition) else None
    ends = (opted_out_until(state, config, now), hold.until if hold else None)
    return max((end for end in ends if end is not None), default=None)


def is_absence(condition: Condition) -> bool:
    """Return whether a condition only reports an absent node, as expected during an update of its group."""
    return condition.family is Family.HEARTBEAT or condition.mode == LEAVING


def start_ignoring(state: NodeState, ignored: Ignored) -> NodeState:
    """Return the node with an exclusion from repairs; `ignored` states the reason and the end."""
    return replace(state, ignored=ignored)


def stop_ignoring(state: NodeState, now: datetime) -> NodeState:
    """Return the node without its exclusion from repairs; a deferred case becomes due at once."""
    due = now if state.case_deferred_until is not None else state.due_at
    return replace(state, ignored=None, due_at=due)


SETTLE = timedelta(seconds=10)
"""How long a case waits for an incident that explains its fault. Without one, the next correlation escalates it."""

MAX_WAIT = timedelta(minutes=3)
"""The node's timer escalates a case that awaits correlation after this time, even if the correlation fails."""


def due_at(state: NodeState, now: datetime | None = None, *, case: Case | None = None) -> datetime | None:
    """Return when the minutely sweep must process the node, or its `case`, even if no record arrives, or None.

    A node whose faults ended, so that only its status or case must still change, is due at `now`.
    """
    case = case or state.live_case
    timers = [condition.quiet_until for condition in state.active()]
    timers += [
        *(condition.work_changes_at for condition in state.active()),
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


def move_case(decided: Transition, case: Case, now: datetime, reason: str | Reason) -> Transition:
    """Replace the live case by `case`, draft the entry of its status change, and update the node's timer.

    `Case.marks` stores when the case first reached each status. If the case leaves the queue with an unanswered
    approval request, a note withdraws the request.
    """
    before = decided.state.live_case
    if case.status not in {CaseStatus.QUEUED, CaseStatus.IN_PROGRESS}:  # the status has a page of its own
        marks = {name: at for name, at in case.marks.items() if name != HELD_SINCE}
        case = replace(case, capacity_since=None, wait_paged=False, marks=marks)
    again = {ESCALATED_AT: now} if case.status is CaseStatus.ESCALATED else {}
    first = case.marks.get(case.status.value, now)
    marked = replace(case, marks={**case.marks, case.status.value: first, **again})
    draft = entry_builder.case_change(before.status if before else None, marked, now, reason, decided.state)
    withdrawn = _withdraw_approval_request(before, case, now)
    moved = replace(decided.state, case=marked)
    return Transition(replace(moved, due_at=due_at(moved, now)), (*decided.drafts, *withdrawn, draft))


def resolve_case(
    decided: Transition,
    case: Case,
    now: datetime,
    resolution: Resolution = Resolution.RECOVERED,
    reason: str = "all conditions ended",
) -> Transition:
    """Close a case, by default because the faults that required it ended."""
    resolved = replace(case, status=CaseStatus.RESOLVED, resolution=resolution, waiting_for=None, closed_at=now)
    return move_case(decided, resolved, now, reason)


def fault_drafts(ended: Folded, rules: Rules) -> tuple[Draft, ...]:
    """Draft the entries of conditions that ended for another reason than a report."""
    return tuple(entry_builder.fault_change(one, ended.state, rules.catalog, rules.policy) for one in ended.changes)


def escalate_case(decided: Transition, case: Case, now: datetime, reason: str | Reason) -> Transition:
    """Escalate a case to the operators, because it cannot continue by itself."""
    escalated = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, because=Reason.of(reason))
    return move_case(decided, escalated, now, reason)


def may_be_shared(state: NodeState) -> bool:
    """Return whether an incident may explain a fault that otherwise requires an operator."""
    return any(condition.family is not None for condition in state.active())


def continue_alone(decided: Transition, now: datetime, *, after: timedelta) -> Transition:
    """Let a case that awaits correlation continue without an incident that explains its fault.

    It is queued at once to verify the node if no fault requires a case now, and else escalated after it was open for
    `after`.
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
    return escalate_case(decided, alone, now, case.because) if now >= case.opened_at + after else decided


def drop_approval(case: Case, now: datetime, text: str) -> tuple[Case, tuple[Draft, ...]]:
    """Return the case without its approval or approval request, and the entries that record this.

    For an unanswered request, the entry is a note with `text`; otherwise there is no entry. A case that waited for the
    answer then waits for admission, which requests approval again if the next attempt requires it.
    """
    drafts = () if case.pending_approval is None else (_approval_over(case, now, text),)
    if case.waiting_for is WaitingFor.APPROVAL:
        case = replace(case, waiting_for=WaitingFor.ADMISSION, because=Reason(text))
    return replace(case, approval=None), drafts


def _withdraw_approval_request(before: Case | None, case: Case, now: datetime) -> tuple[Draft, ...]:
    if before is None or before.pending_approval is None or case.status is CaseStatus.QUEUED:
        return ()
    return (_approval_over(case, now, "Approval no longer required: the case continued without an answer."),)


def _approval_over(case: Case, now: datetime, text: str) -> Draft:
    return entry_builder.note(kind=NoteKind.APPROVAL, text=text, at=now, case_id=case.id, stage="over")
