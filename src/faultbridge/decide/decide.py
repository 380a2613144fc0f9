"""Decide: derive node status, case transitions and timers from conditions, policy and time.

This is the first stage that reads the policy's rules. A second run on its own result records nothing further, apart
from policy changes beyond `MAX_OVERRIDES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import (
    MAX_WAIT,
    Cause,
    Rules,
    continue_alone,
    deferred_until,
    drop_approval,
    due_at,
    escalate_case,
    is_absence,
    may_be_shared,
    move_case,
    open_case,
    resolve_case,
)
from faultbridge.decide.explained import with_explained
from faultbridge.decide.fold.capacity import MAX_OVERRIDES
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.decide.governing_rules import Requirement, Response, respond, rests_on_claims, with_requirement
from faultbridge.decide.work import DAY, MAX_WITHDRAWALS, needed_action, takes_out, with_work
from faultbridge.model.cases import Case, Reason
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, NoteKind, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.isolation import ORDERED, in_service
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Policy, Rule
from faultbridge.model.values import replace

WAITING = frozenset({CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.ABSORBED})


def set_isolation(state: NodeState, policy: Policy, now: datetime) -> NodeState:
    """Set whether the live case keeps new work off a node in service, for the conditions that are active now.

    A node that was cordoned and returned to work too often within a day is verified before it returns again.
    """
    case = state.live_case
    if case is None or case.cancelled or not in_service(state):
        return state
    recurs = sum(now - at <= DAY for at in state.withdrawals) >= MAX_WITHDRAWALS
    isolate, recurring = takes_out(state, policy), case.recurring or recurs
    if (isolate or case.keeps_out, recurring) == (case.isolate, case.recurring):
        return state
    return replace(state, case=replace(case, isolate=isolate or case.keeps_out, recurring=recurring))


def raise_repair_action(
    state: NodeState, joined: Iterable[Condition], policy: Policy, now: datetime
) -> tuple[NodeState, tuple[Draft, ...]]:
    """Raise a waiting case's action for `joined` conditions; a running attempt reads them itself.

    A claim raises only a case that rests on claims, which diagnostics check first. The failed verification that
    confirms a claim decides what it requires, so that no repetition of the claim does.
    """
    case = state.live_case
    if case is None or case.status not in WAITING or case.cancelled:
        return state, ()
    required = [
        (response.repair_action, response, rule, condition)
        for condition in joined
        if not condition.claimed or rests_on_claims(state, case)
        for rule in [policy.rule_for(condition, state.key.cluster, state.placement.instance_type)]
        if (response := _response(state, condition, rule, now)).repair_action
    ]
    if not required:
        return state, ()
    order = list(RepairAction)
    repair_action, response, rule, condition = max(required, key=lambda requirement: order.index(requirement[0]))
    if order.index(repair_action) <= order.index(case.repair_action):
        return state, ()
    # An approval covers only the repair action that it was requested for.
    text = f"Approval of {case.repair_action.value} no longer required: the case now needs {repair_action.value}."
    unapproved, approval_over = drop_approval(case, now, text)
    raised = replace(
        with_requirement(unapproved, Requirement(condition, rule, repair_action)),
        repair_action=repair_action,
        relapse_of=response.probation.case_id if response.probation else case.relapse_of,
    )
    return replace(state, case=raised), (_note(case, raised, condition, policy, now), *approval_over)


def _response(state: NodeState, condition: Condition, rule: Rule, now: datetime) -> Response:
    needs_case = condition.action.opens_case and condition.known_incarnation
    return respond(state, condition, rule, now) if needs_case else Response(None)


def _note(before: Case, raised: Case, condition: Condition, policy: Policy, now: datetime) -> Draft:
    new, old = raised.repair_action.value, before.repair_action.value
    text = f"{condition.code} joined the case: {new} replaces {old}"
    facts = {"repair_action": new, "repair_action_before": old, "rule": raised.rule, "policy": policy.version}
    return entry_builder.note(kind=NoteKind.INFORMATION, text=text, at=now, case_id=before.id, facts=facts)


def decide(state: NodeState, changes: Iterable[Change], rules: Rules, now: datetime) -> Transition:
    """Return the next state and the timeline entries of a node after these changes of its conditions."""
    changes = tuple(changes)
    placed = _with_declared_domains(state, rules.config) if changes else state
    explained = with_explained(with_work(placed, rules.catalog, now), rules.catalog)
    state, overridden = _apply_policy(explained, changes, rules)
    changes += overridden
    decided = Transition(state)
    if state.live_case is None:
        decided = _open_case(decided, changes, rules, now)
    else:
        joined = _actionable(state, changes, rules, now)
        if not rules.config.follows_provider:
            decided = Transition(*raise_repair_action(state, joined, rules.policy, now))
    decided = _mark_claimed(decided, opened=state.live_case is None)
    decided = replace(decided, state=set_isolation(decided.state, rules.policy, now))
    decided = _record_changes(decided, changes, rules)
    decided = _move_node(decided, now)
    decided = _move_case(decided, now)
    return replace(decided, state=replace(decided.state, due_at=due_at(decided.state)))


def _with_declared_domains(state: NodeState, config: ClusterConfig) -> NodeState:
    declared = config.declared_of(state.key.node)
    if declared == state.placement.declared:
        return state
    return replace(state, placement=replace(state.placement, declared=declared))


def _mark_claimed(decided: Transition, *, opened: bool) -> Transition:
    """Record on the case whether only claims called for it since it was opened; `opened` if it was opened now."""
    state, case = decided.state, decided.state.live_case
    needing = [one for one in state.active() if one.action.opens_case]
    if case is None or not needing:
        return decided
    claimed = (opened or case.claimed) and all(one.claimed for one in needing) and rests_on_claims(state, case)
    return replace(decided, state=replace(state, case=replace(case, claimed=claimed)))


def _apply_policy(state: NodeState, changes: Iterable[Change], rules: Rules) -> tuple[NodeState, tuple[Change, ...]]:
    """Apply the policy to a node's conditions. Return the node and the additional changes to record.

    The policy sets the severity and action of each condition. `changes` are the changes that the observations made.

    - While a case lives, another rule than the first one can only make a condition more severe and its action stronger.
    - A condition that another one explains has no action.
    - A condition in `changes` gets no additional change: the entry of its change shows the policy's values.
    - Any other condition gets one if it now has another severity or action, for example because it was observed often
      enough to match another rule, or is a sensor that keeps failing. One commit changes at most 8 of these conditions,
      the worst first; the others follow with the next commit.
    """
    policy = rules.policy
    changed = {change.condition.key for change in changes if change.condition}
    began = {change.condition.key for change in changes if change.condition and change.kind is ChangeKind.BEGAN}
    conditions: dict[str, Condition] = dict(state.conditions)
    overridden: list[Change] = []
    for key, condition in sorted(state.conditions.items(), key=lambda item: -item[1].severity.rank):
        rule = policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
        governing = rule.name if rule.severity or rule.action else None
        applied: tuple[Rule, ...] = (rule,)
        if governing != condition.rule and state.live_case is not None and key not in began:
            governing, applied = condition.rule, (rule, policy.rule_named(condition.rule or ""))
        severity, action = _strictest(condition, applied, rules.catalog)
        effective = replace(condition, severity=severity, action=action, rule=governing)
        if (severity, action) == (condition.severity, condition.action):
            conditions[key] = effective if governing != condition.rule else condition
            continue
        if key in changed:
            conditions[key] = effective
        elif len(overridden) < MAX_OVERRIDES:
            conditions[key] = effective
            overridden.append(
                Change(
                    ChangeKind.UPDATED,
                    condition.last_at,
                    effective,
                    reason=f"because of {condition.because_of}" if condition.because_of else f"rule {rule.name}",
                    changed_parts=("severity",),
                )
            )
    return replace(state, conditions=conditions), tuple(overridden)


def _strictest(condition: Condition, applied: Iterable[Rule], catalog: Catalog) -> tuple[Severity, Action]:
    reported = condition.reported_severity or condition.severity
    severity = max((one.severity or reported for one in applied), key=lambda one: one.rank)
    needed = needed_action(condition, catalog)
    action = max((one.action or needed for one in applied), key=lambda one: one.rank)
    return severity, Action.NONE if condition.because_of else action


def _open_case(decided: Transition, changes: tuple[Change, ...], rules: Rules, now: datetime) -> Transition:
    """Open a case for the worst condition, or defer it while the node is excluded or its group updates."""
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
        Cause(
            condition.code, condition.mode, condition.component, condition.severity, condition.action, condition.since
        ),
        rules,
        now,
        rule=rule.name,
        repair_action=repair_action or next(reversed(rule.repair_actions), RepairAction.VERIFY),
        reason=f"{condition.code}: {response.text}" if response.probation else condition.code,
        isolate=takes_out(state, rules.policy),
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
        return replace(decided, state=replace(decided.state, case=replace(case, because=Reason(reason))))
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
    changed = {change.condition.key for change in changes if change.condition}
    return [
        condition
        for condition in needing_case
        if condition.key in changed and now - condition.last_at <= rules.policy.limits.act_within
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
    latest = state.conditions.get(condition.key, condition)
    effective = {"severity": latest.severity, "action": latest.action, "because_of": latest.because_of}
    return replace(change, condition=replace(condition, **effective))


def _move_node(decided: Transition, now: datetime) -> Transition:
    """Set degraded while a condition of warning or worse is active or the node is isolated, else healthy."""
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


def expire_approval(decided: Transition, now: datetime) -> Transition:
    """Escalate the live case if the deadline of its unanswered approval request has passed."""
    case = decided.state.live_case
    request = case.pending_approval if case else None
    if case is None or request is None or request.answer_by > now:
        return decided
    return escalate_case(decided, case, now, "approval timed out: no operator answered by the deadline")
