"""Decide: derive node status, case transitions and timers from conditions, policy and time.

This is the first stage that reads the policy's rules. A second run on its own result records nothing further, apart
from policy changes beyond `MAX_OVERRIDES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action, Severity
from faultbridge.domain.isolation import ORDERED
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.case_moves import (
    MAX_WAIT,
    continue_alone,
    due_at,
    escalate_case,
    may_be_shared,
    move_case,
    resolve_case,
)
from faultbridge.pipeline.decide.escalation import raise_isolation, raise_repair_action
from faultbridge.pipeline.decide.open_case import Cause, Rules, open_case
from faultbridge.pipeline.decide.opt_out import deferred_until, is_absence
from faultbridge.pipeline.decide.relapse import Response, respond
from faultbridge.pipeline.decide.repair_actions import rests_on_claims
from faultbridge.pipeline.fold.capacity import MAX_OVERRIDES
from faultbridge.pipeline.fold.changes import Change, ChangeKind


def decide(state: NodeState, changes: Iterable[Change], rules: Rules, now: datetime) -> Transition:
    """Return the next state and the timeline entries of a node after these changes of its conditions."""
    changes = tuple(changes)
    state, overridden = _apply_policy(state, changes, rules.policy)
    changes += overridden
    decided = Transition(state)
    if state.live_case is None:
        decided = _open_case(decided, changes, rules, now)
    else:
        joined = _actionable(state, changes, rules, now)
        decided = Transition(raise_isolation(state, joined, rules.policy))
        if not rules.config.follows_provider:
            decided = Transition(*raise_repair_action(decided.state, joined, rules.policy, now))
    decided = _mark_claimed(decided, opened=state.live_case is None)
    decided = _record_changes(decided, changes, rules)
    decided = _move_node(decided, now)
    decided = _move_case(decided, now)
    return replace(decided, state=replace(decided.state, due_at=due_at(decided.state)))


def _mark_claimed(decided: Transition, *, opened: bool) -> Transition:
    """Record on the case whether only claims called for it since it was opened; `opened` if it was opened now."""
    state, case = decided.state, decided.state.live_case
    needing = [one for one in state.active() if one.action.opens_case]
    if case is None or not needing:
        return decided
    claimed = (opened or case.claimed) and all(one.claimed for one in needing) and rests_on_claims(state, case)
    return replace(decided, state=replace(state, case=replace(case, claimed=claimed)))


def _apply_policy(state: NodeState, changes: Iterable[Change], policy: Policy) -> tuple[NodeState, tuple[Change, ...]]:
    """Apply the policy to a node's conditions. Return the node and the additional changes to record.

    The policy sets the severity and action of each condition. `changes` are the changes that the observations made.

    - A condition in `changes` gets no additional change: the entry of its change shows the policy's values.
    - Any other condition gets one if the policy now gives it another severity or action, for example because the
      condition was observed often enough to match another rule. One commit changes at most 8 of these conditions, the
      worst first; the others follow with the next commit.
    """
    changed = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    conditions: dict[str, Condition] = dict(state.conditions)
    overridden: list[Change] = []
    for key, condition in sorted(state.conditions.items(), key=lambda item: -item[1].severity.rank):
        rule = policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
        severity = rule.severity or condition.reported_severity or condition.severity
        action = rule.action or condition.reported_action or condition.action
        if (severity, action) == (condition.severity, condition.action):
            continue
        effective = replace(condition, severity=severity, action=action)
        if (condition.code, condition.component) in changed:
            conditions[key] = effective
        elif len(overridden) < MAX_OVERRIDES:
            conditions[key] = effective
            overridden.append(
                Change(
                    ChangeKind.UPDATED,
                    condition.last_at,
                    effective,
                    reason=f"rule {rule.name}",
                    changed_parts=("severity",),
                )
            )
    return replace(state, conditions=conditions), tuple(overridden)


def _open_case(decided: Transition, changes: tuple[Change, ...], rules: Rules, now: datetime) -> Transition:
    """Open a case for the worst actionable condition, or defer it while the node is excluded from repairs.

    The case is also deferred while the node is absent because the owner of its group updates the group.
    """
    condition = _case_condition(decided.state, changes, rules, now)
    deferred = deferred_until(decided.state, condition, rules.config, now) if condition else None
    decided = replace(decided, state=replace(decided.state, case_deferred_until=deferred))
    state = decided.state
    if condition is None or deferred is not None:
        return decided
    rule = rules.policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
    # Where the provider repairs, Faultbridge only verifies the node.
    response = respond(state, condition, rule, now)
    repair_action = RepairAction.VERIFY if rules.config.follows_provider else response.repair_action
    correlated = repair_action is None and may_be_shared(state)
    decided = open_case(
        decided,
        Cause(condition.code, condition.component, condition.severity, condition.action, condition.since),
        rules,
        now,
        rule=rule.name,
        repair_action=repair_action or next(reversed(rule.repair_actions), RepairAction.VERIFY),
        reason=f"{condition.code}: {response.text}" if response.probation else condition.code,
        isolate=rule.isolates(condition.severity),
        wait_seconds=int(MAX_WAIT.total_seconds()) if correlated else rule.wait_seconds,
        waiting_for=WaitingFor.CORRELATION if correlated else WaitingFor.WAIT,
        gpus=_gpu_count(state, rules),
        relapse_of=response.probation.case_id if response.probation else None,
    )
    case = decided.state.live_case
    if repair_action is not None or case is None:
        return decided
    reason = _escalation_reason(condition, rule, response)
    if correlated:
        return replace(decided, state=replace(decided.state, case=replace(case, reason=reason)))
    return escalate_case(decided, case, now, reason)


def _gpu_count(state: NodeState, rules: Rules) -> int | None:
    instance_type = (state.placement.instance_type or "").removeprefix("ml.")
    return rules.gpus.get(instance_type) or len(state.devices) or None


def _case_condition(state: NodeState, changes: tuple[Change, ...], rules: Rules, now: datetime) -> Condition | None:
    if not rules.config.opens_cases or state.status is None or not state.status.in_service:
        return None
    found = _actionable(state, changes, rules, now)
    if rules.config.update_hold(state.placement.group, now) is not None:
        # An absence that the update explains must not hide a fault that it does not explain.
        found = [one for one in found if not is_absence(one)] or found
    return max(found, key=_severity_and_action, default=None)


def _severity_and_action(condition: Condition) -> tuple[int, int]:
    return condition.severity.rank, condition.action.rank


def _actionable(state: NodeState, changes: tuple[Change, ...], rules: Rules, now: datetime) -> list[Condition]:
    """Return the current instance's active conditions that may open a case or strengthen a repair now.

    These are the conditions that need a case, changed now, and were last observed within the policy's `act_within`.
    While opening a case is deferred, the result contains all conditions of the current instance that need a case.
    """
    needing_case = [one for one in state.active() if one.action.opens_case and one.known_incarnation]
    if state.case_deferred_until is not None:
        # Conditions that began while the node was excluded from repairs are treated as new.
        return needing_case
    changed = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    return [
        condition
        for condition in needing_case
        if (condition.code, condition.component) in changed
        and now - condition.last_at <= rules.policy.limits.act_within
    ]


def _escalation_reason(condition: Condition, rule: Rule, response: Response) -> str:
    if condition.code.startswith(ORDERED):
        return f"taken out of service by an operator: {condition.message}"
    if condition.action is Action.CONTACT_SUPPORT:
        return f"{condition.code} needs support: no automatic repair is known"
    if response.probation is not None:
        return f"{condition.code}: {response.text}; rule {rule.name} permits no stronger repair action"
    return f"rule {rule.name} permits no repair action for {condition.action.value}"


def _record_changes(decided: Transition, changes: tuple[Change, ...], rules: Rules) -> Transition:
    """Draft the entries of the changed conditions, which precede the entry of the case that they open."""
    drafts = tuple(
        entry_builder.fault_change(
            _with_policy_severity(change, decided.state), decided.state, rules.catalog, rules.policy
        )
        for change in changes
    )
    return replace(decided, drafts=drafts + decided.drafts)


def _with_policy_severity(change: Change, state: NodeState) -> Change:
    condition = change.condition
    if condition is None or change.kind is ChangeKind.ENDED:
        return change
    latest = next(
        (
            one
            for one in state.conditions.values()
            if (one.code, one.component) == (condition.code, condition.component)
        ),
        condition,
    )
    return replace(change, condition=replace(condition, severity=latest.severity, action=latest.action))


def _move_node(decided: Transition, now: datetime) -> Transition:
    """Set the status to degraded while a condition of severity warning or worse is active, else healthy.

    An isolated node stays degraded. A node with another status than degraded or healthy is not changed.
    """
    state = decided.state
    impaired = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    if state.status is NodeStatus.HEALTHY and impaired:
        worst = max(state.active(), key=_severity_and_action)
        return _set_node_status(decided, NodeStatus.DEGRADED, now, worst.code)
    if state.status is NodeStatus.DEGRADED and not impaired and state.isolation is Isolation.NONE:
        return _set_node_status(decided, NodeStatus.HEALTHY, now, "all conditions ended")
    return decided


def _set_node_status(decided: Transition, target: NodeStatus, now: datetime, reason: str) -> Transition:
    draft = entry_builder.status_change(decided.state, target, now, reason)
    return Transition(replace(decided.state, status=target), (*decided.drafts, draft))


def _move_case(decided: Transition, now: datetime) -> Transition:
    """Close an open or queued case whose faults ended, or continue an open case after its waiting period.

    A case is closed only if its node is in service and not isolated, and if the case requires no verification.
    """
    state = decided.state
    case = state.live_case
    if case is None or case.status not in {CaseStatus.OPEN, CaseStatus.QUEUED}:
        return decided
    in_service = state.status is not None and state.status.in_service
    recovered = in_service and state.isolation is Isolation.NONE and not case.keeps_out
    if recovered and not any(one.action.opens_case for one in state.active()):
        return resolve_case(decided, case, now)
    if case.awaits_correlation:
        return continue_alone(decided, now, after=MAX_WAIT)
    if case.status is CaseStatus.OPEN and case.not_before is not None and case.not_before <= now:
        queued = replace(case, status=CaseStatus.QUEUED, waiting_for=WaitingFor.ADMISSION)
        reason = "waiting period over" if case.waiting_for else "no waiting period applies"
        return move_case(decided, queued, now, reason)
    return decided
