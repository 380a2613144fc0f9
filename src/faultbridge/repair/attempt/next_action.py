"""Escalates the repair action: after one action fails, the next permitted action is tried."""

from __future__ import annotations

from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.entries import Draft
from faultbridge.domain.repeated_repairs import is_replaced
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.governing_rules import requirements, rule_of_case, strongest_requirement
from faultbridge.pipeline.decide.repair_actions import next_higher, next_repair_action
from faultbridge.repair.attempt.intent import IncidentsOfFailure, incidents_of_failure
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult


def fail_step(context: StepContext, step: str, outcome: str, reason: str, failure: str) -> StepResult:
    """Record that a step failed, end the attempt, and try the next repair action if one is permitted.

    `failure` is the failure code that is recorded with the reason, such as `TIMEOUT`.
    """
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

    `at_least` is the stronger action that the faults of the node require, or None. The first rule that applies is used:

    - An open incident explains the fault: the case waits, because the instance may not be bad.
    - An incident was closed while the node was verified: the node is verified again, unless `at_least` is given.
    - The attempt only verified the node, and no repair action fixes any active fault: the case is escalated.
    - No further action is permitted, the case is canceled, or the strongest action was tried as often as the policy
      permits: the case is escalated.
    - The instance was already replaced, and an incident past its maximum age affects the node: the case is escalated.
    - Otherwise, the case is queued for the next action; after the strongest action, for the same action again.
    """
    case, policy = context.case, context.rules.policy
    incidents = incidents_of_failure(context)
    waits = wait_for_incident(context, reason, draft, incidents=incidents, repair_action=at_least)
    if waits is not None:
        return waits
    if incidents.closed is not None and at_least is None:
        text = f"{reason}; incident {incidents.closed} was open during the verification; the node is verified again"
        verify = RepairAction.VERIFY
        return context.requeue(WaitingFor.ADMISSION, text, draft, repair_action=verify, delay=False, counts=False)
    if case.repair_action is RepairAction.VERIFY and (unrepairable := _unrepairable_faults(context)):
        text = f"{reason}; no automatic repair is known for {', '.join(unrepairable)}"
        return context.escalate_to_operator(text, draft)
    rule, required = rule_of_case(context.state, case, policy), strongest_requirement(context.state, policy)
    if at_least is not None and required is not None and required.repair_action is at_least:
        rule = required.rule
    action = next_repair_action(rule, at_least=at_least or next_higher(case.repair_action) or case.repair_action)
    same = action is case.repair_action
    if action is None or case.cancelled or (same and case.counted_attempts >= policy.limits.attempts):
        return context.escalate_to_operator(reason, draft)
    if is_replaced(context.state) and incidents.expired is not None:
        text = f"{reason}; incident {incidents.expired} still affects its failure domain"
        return context.escalate_to_operator(text, draft)
    reason = f"{reason}; {f'{action.value} is tried again' if same else f'next repair action: {action.value}'}"
    # There are few repair actions, so the policy limits only retries of the same action.
    return context.requeue(
        WaitingFor.ADMISSION, reason, draft, repair_action=action, delay=False, counts=same, failed=True
    )


def _unrepairable_faults(context: StepContext) -> tuple[str, ...]:
    """Return the codes of the node's faults that need a case, if no repair action fixes any of them.

    Only an operator can fix such faults, so a failed verification then escalates the case. Otherwise, the result is
    empty. It is also empty if Faultbridge did not request the instance of the case: the caller then tries the next
    repair action, which can replace the instance.
    """
    found = requirements(context.state, context.rules.policy)
    if context.case.unrequested_instance or any(one.repair_action is not None for one in found):
        return ()
    return tuple(sorted({one.condition.code for one in found}))


def wait_for_incident(
    context: StepContext,
    reason: str,
    draft: Draft,
    *,
    incidents: IncidentsOfFailure | None = None,
    repair_action: RepairAction | None = None,
) -> StepResult | None:
    """End the failed attempt and let its case wait for the open incident that explains the failure.

    Returns None, and changes nothing, if no open incident explains the failure. With `incidents` None, this function
    reads the incidents. `repair_action` is the action of the next attempt. With None, it is the action of the case.
    """
    incidents = incidents or incidents_of_failure(context)
    if incidents.open is None:
        return None
    text = f"{reason}; incident {incidents.open} explains it"
    return context.requeue(WaitingFor.INCIDENT, text, draft, repair_action=repair_action, delay=False, counts=False)
