"""Outcomes of a verification without a result: the instance is gone, work runs on it, or it has to start again."""

from __future__ import annotations

from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.decide.governing_rules import rests_on_claims
from faultbridge.model.cases import WaitingFor
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.entries import Transition
from faultbridge.model.nodes import NodeState
from faultbridge.record.ports import Verdict, Verification
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.repair.attempt.verification_rules import joined_findings
from faultbridge.repair.steps.follow_provider import gone_reason, is_gone

OUTCOMES = {Verdict.UNKNOWN: "no_result", Verdict.OCCUPIED: "occupied"}


def requeue_if_gone(context: StepContext) -> StepResult | None:
    """Queue the case again if the instance is gone, or escalate it after the last attempt; None if it is not gone."""
    if not is_gone(context):
        return None
    reason, step, instance = gone_reason(context), context.request.step, context.instance_id
    context = context.commit(lambda state, now: Transition(mark_gone(state, now)))
    draft = entry_builder.step(context.case, step, "gone", context.now, reason=reason, new_instance=instance)
    return context.retry_or_escalate(WaitingFor.WAIT, reason, draft)


def end_if_occupied(context: StepContext, found: Verification) -> StepResult | None:
    """Queue a case that rests on claims again until the node is idle; escalate any other one after the deadline.

    Returns None before the deadline, because the verification is started again, and for any verdict but `occupied`.
    Nothing about the hardware is known, so no claim is confirmed.
    """
    if found.verdict is not Verdict.OCCUPIED:
        return None
    reason = f"no diagnostics beside running work: {joined_findings(found.findings)}"
    case, operation, instance = context.case, context.attempt.operation, context.instance_id
    draft = entry_builder.step(
        case, context.request.step, "occupied", context.now, reason=reason, operation=operation, new_instance=instance
    )
    if rests_on_claims(context.state, case):
        return context.requeue(WaitingFor.IDLE, reason, draft, counts=False)
    if context.attempt.deadline is None or context.now < context.attempt.deadline:
        return None
    return context.escalate_to_operator(f"TIMEOUT: could not be verified: {reason}", draft, fails=False)


def end_operation(context: StepContext, found: Verification, reason: str) -> StepContext:
    """Record that the started verification has no result, so that another one can start."""

    def revise(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        if attempt.operation is None:
            return Transition(state)
        ended, instance, outcome = attempt.operation, context.instance_id, OUTCOMES[found.verdict]
        step = entry_builder.step(
            case, context.request.step, outcome, now, reason=reason, operation=ended, new_instance=instance
        )
        return Transition(update_attempt(state, operation=None), (step,))

    return context.commit(revise)
