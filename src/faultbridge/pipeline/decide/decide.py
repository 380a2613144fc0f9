"""Decide: conditions, history, policy and the time in; node status, case moves and timers out.

The only stage that reads policy. It is a function of state and now: deciding twice is deciding once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.conditions import Condition
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.domain.policy import Rule
from faultbridge.domain.times import earliest
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.escalation import escalate
from faultbridge.pipeline.decide.open_case import Cause, Rules, open_case
from faultbridge.pipeline.decide.opt_out import FOREVER, left_alone_until
from faultbridge.pipeline.decide.policy_override import override
from faultbridge.pipeline.fold.changes import Change, ChangeKind
from faultbridge.pipeline.fold.expire import quiet_until


def decide(state: NodeState, changes: Iterable[Change], rules: Rules, now: datetime) -> Transition:
    """Judge a node whose conditions may have changed."""
    changes = tuple(changes)
    state, raised = override(state, changes, rules.policy)
    changes += raised
    decided = Transition(state)
    if state.live_case is None:
        decided = _open_case(decided, changes, rules, now)
    elif not rules.config.follows:
        decided = Transition(*escalate(state, _fresh(state, changes, rules, now), rules.policy, now))
    decided = _record_changes(decided, changes, rules)
    decided = _move_node(decided, now)
    decided = _move_case(decided, now)
    return replace(decided, state=replace(decided.state, due_at=due_at(decided.state)))


def due_at(state: NodeState) -> datetime | None:
    """Return when the node must be looked at again although nothing arrives."""
    case = state.live_case
    timers = [quiet_until(condition) for condition in state.active()]
    if state.put_off_until is not None and state.put_off_until < FOREVER:
        timers.append(state.put_off_until)
    if case is not None and case.asking is not None:
        timers.append(case.asking.answer_by)
    if case is not None and case.status is CaseStatus.OPEN:
        timers.append(case.not_before)
    if case is not None and case.attempt is not None:
        timers += [case.attempt.probe_at, case.attempt.deadline]
    return earliest(*timers)


def _record_changes(decided: Transition, changes: tuple[Change, ...], rules: Rules) -> Transition:
    """Faults come before the case they open, though they already carry its id."""
    drafts = tuple(
        entry_builder.fault_change(_current(change, decided.state), decided.state, rules.catalog, rules.policy)
        for change in changes
    )
    return replace(decided, drafts=drafts + decided.drafts)


def _current(change: Change, state: NodeState) -> Change:
    # A policy's own severity and action belong into the entry, not the catalog's.
    if change.condition is None or change.kind is ChangeKind.ENDED:
        return change
    latest = next((one for one in state.conditions.values() if _same(one, change.condition)), change.condition)
    return replace(change, condition=replace(change.condition, severity=latest.severity, action=latest.action))


def _same(one: Condition, other: Condition) -> bool:
    return one.code == other.code and one.component == other.component


def _move_node(decided: Transition, now: datetime) -> Transition:
    state = decided.state
    harmed = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    if state.status is NodeStatus.HEALTHY and harmed:
        return _to(decided, NodeStatus.DEGRADED, now, _worst(state).code)
    if state.status is NodeStatus.DEGRADED and not harmed and state.isolation is Isolation.NONE:
        return _to(decided, NodeStatus.HEALTHY, now, "all conditions ended")
    return decided


def _to(decided: Transition, target: NodeStatus, now: datetime, reason: str) -> Transition:
    draft = entry_builder.status_change(decided.state, target, now, reason)
    return Transition(replace(decided.state, status=target), (*decided.drafts, draft))


def _worst(state: NodeState) -> Condition:
    return max(state.active(), key=lambda one: (one.severity.rank, one.action.rank))


def _open_case(decided: Transition, changes: tuple[Change, ...], rules: Rules, now: datetime) -> Transition:
    cause = _cause(decided.state, changes, rules, now)
    put_off = left_alone_until(decided.state, rules.config, now) if cause else None
    decided = replace(decided, state=replace(decided.state, put_off_until=put_off))
    state = decided.state
    if cause is None or put_off is not None:
        return decided
    rule = rules.policy.rule_for(cause, state.key.cluster, state.placement.instance_type)
    # Where the provider repairs, Faultbridge only verifies the node.
    repair_action = RepairAction.VERIFY if rules.config.follows else rule.repair_action(cause.action)
    decided = open_case(
        decided,
        Cause(cause.code, cause.component, cause.severity, cause.action, cause.since),
        rules,
        now,
        rule=rule.name,
        repair_action=repair_action or next(reversed(rule.repair_actions), RepairAction.VERIFY),
        reason=cause.code,
        isolate=rule.isolate and cause.severity.rank >= Severity.ERROR.rank,
        wait_seconds=rule.wait_seconds,
        gpus=_gpus(state, rules),
    )
    return decided if repair_action else _escalate(decided, now, _why_a_person(cause, rule))


def _gpus(state: NodeState, rules: Rules) -> int | None:
    kind = (state.placement.instance_type or "").removeprefix("ml.")
    return rules.gpus.get(kind) or len(state.devices) or None


def _cause(state: NodeState, changes: tuple[Change, ...], rules: Rules, now: datetime) -> Condition | None:
    """Pick the worst fresh condition that a case may be opened for."""
    if not rules.config.attends or state.status is None or not state.status.in_service:
        return None
    return max(_fresh(state, changes, rules, now), key=lambda one: (one.severity.rank, one.action.rank), default=None)


def _fresh(state: NodeState, changes: tuple[Change, ...], rules: Rules, now: datetime) -> list[Condition]:
    """List what changed, is still true, and may be acted upon."""
    if state.put_off_until is not None:
        # What began while the node was left alone is as good as new.
        return [one for one in state.active() if one.action.opens_case and one.known_incarnation]
    begun = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    return [
        condition
        for condition in state.active()
        if condition.action.opens_case
        and condition.known_incarnation
        and (condition.code, condition.component) in begun
        and now - condition.last_at <= rules.policy.limits.act_within
    ]


def _why_a_person(cause: Condition, rule: Rule) -> str:
    if cause.action is Action.CONTACT_SUPPORT:
        return f"{cause.code} needs support: no repair is known to help"
    return f"rule {rule.name} permits no repair action for {cause.action.value}"


def _move_case(decided: Transition, now: datetime) -> Transition:
    state = decided.state
    case = state.live_case
    if case is None or case.status not in {CaseStatus.OPEN, CaseStatus.QUEUED}:
        return decided
    serves = state.status is not None and state.status.in_service
    if serves and state.isolation is Isolation.NONE and not any(one.action.opens_case for one in state.active()):
        return _resolve(decided, now)
    if case.status is CaseStatus.OPEN and case.not_before is not None and case.not_before <= now:
        waiting = replace(case, status=CaseStatus.QUEUED, waiting_for=WaitingFor.BUDGET)
        return move_case(
            decided, waiting, now, "wait over" if case.waiting_for else "the policy lets it wait for nothing"
        )
    return decided


def _resolve(decided: Transition, now: datetime) -> Transition:
    case = decided.state.live_case
    if case is None:
        return decided
    resolved = replace(
        case, status=CaseStatus.RESOLVED, resolution=Resolution.RECOVERED, waiting_for=None, closed_at=now
    )
    return move_case(decided, resolved, now, "all conditions ended")


def _escalate(decided: Transition, now: datetime, reason: str) -> Transition:
    case = decided.state.live_case
    if case is None:
        return decided
    escalated = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, reason=reason)
    return move_case(decided, escalated, now, reason)


def move_case(decided: Transition, case: Case, now: datetime, reason: str) -> Transition:
    """Move the live case, and with it the time at which the node is due; the first time it has a status is marked."""
    before = decided.state.live_case
    marked = replace(case, marks={**case.marks, case.status.value: case.marks.get(case.status.value, now)})
    draft = entry_builder.case_change(before.status if before else None, marked, now, reason, decided.state)
    over = _question_over(before, case, now)
    moved = replace(decided.state, case=marked)
    return Transition(replace(moved, due_at=due_at(moved)), (*decided.drafts, *over, draft))


def _question_over(before: Case | None, case: Case, now: datetime) -> tuple[Draft, ...]:
    """Note that nobody needs to answer any more, where a case goes on without the answer it asked for."""
    if before is None or before.asking is None or case.status is CaseStatus.QUEUED:
        return ()
    text = "the question is over: the case goes on without an answer"
    return (entry_builder.note(kind="approval", text=text, at=now, case_id=case.id, stage="over"),)
