"""State RecordFailure: record an error that the state machine caught."""

from __future__ import annotations

import logging

from faultbridge.domain.cases import WaitingFor
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.repair.steps import return_to_service

NAME = "fail"


def record_failure(context: StepContext) -> StepResult:
    """Retry a failure before the intent later; escalate a failure after the intent."""
    context = _cordon_again(context)
    reason = context.request.error or "the step failed without an error message"
    step = context.attempt.step or "admission"
    draft = entry_builder.step(context.case, step, "error", context.now, reason=reason)
    text = f"{step} failed: {reason}"
    context.log("attempt_failed", text, logging.ERROR)
    if context.attempt.intent is None:
        return context.retry_or_escalate(WaitingFor.WAIT, text, draft)
    return context.escalate_to_operator(text, draft)


def _cordon_again(context: StepContext) -> StepContext:
    """Cordon the node again if a failed return to service may have uncordoned it."""
    returning = context.attempt.step == return_to_service.NAME and not context.rules.config.follows_provider
    if not returning or not context.orchestrator.applicable:
        return context
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
    return context
