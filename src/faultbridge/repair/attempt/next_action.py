"""Escalates the repair action: after one action fails, the next permitted one is tried."""

from __future__ import annotations

from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.entries import Draft
from faultbridge.domain.repeated_repairs import is_replaced
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.governing_rules import rule_of_case, strongest_requirement
from faultbridge.pipeline.decide.repair_actions import next_higher, next_repair_action
from faultbridge.repair.attempt.intent import incidents_of_failure
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult


def fail_step(context: StepContext, step: str, outcome: str, reason: str, failure: str) -> StepResult:
    """Record that a step failed, end the attempt, and continue with the next repair action."""
    attempt = context.attempt
    draft = entry_builder.step(
        context.case,
        step,
        outcome,
        context.now,
        reason=reason,
        failure=failure,
        operation=attempt.operation,
        new_instance=context.instance_id,
    )
    return try_next_action(context, f"{failure}: {reason}", draft)


def try_next_action(
    context: StepContext, reason: str, draft: Draft, *, at_least: RepairAction | None = None
) -> StepResult:
    """Queue the case for the next permitted repair action, or escalate it to an operator if there is none.

    After the strongest action, the same action is tried again until the policy's number of attempts is reached. While
    an open incident affects the node's failure domain, a failed attempt does not show that the instance is bad, so the
    case waits. If the incident is older than its maximum age, an operator decides, because another replacement might
    fail for the same cause.
    """
    case, policy = context.case, context.rules.policy
    incident, expired = (None, None) if case.cancelled else incidents_of_failure(context)
    if incident is not None:
        text = f"{reason}; incident {incident} explains it"
        return context.requeue(WaitingFor.INCIDENT, text, draft, repair_action=at_least, delay=False, counts=False)
    rule, required = rule_of_case(context.state, case, policy), strongest_requirement(context.state, policy)
    if at_least is not None and required is not None and required.repair_action is at_least:
        rule = required.rule
    action = next_repair_action(rule, at_least=at_least or next_higher(case.repair_action) or case.repair_action)
    same = action is case.repair_action
    if action is None or case.cancelled or (same and case.counted_attempts >= policy.limits.attempts):
        return context.escalate_to_operator(reason, draft)
    if is_replaced(context.state) and expired is not None:
        return context.escalate_to_operator(f"{reason}; incident {expired} still affects its failure domain", draft)
    reason = f"{reason}; {f'{action.value} is tried again' if same else f'next repair action: {action.value}'}"
    # There are few repair actions, so the policy limits only retries of the same action.
    return context.requeue(WaitingFor.ADMISSION, reason, draft, repair_action=action, delay=False, counts=same)
