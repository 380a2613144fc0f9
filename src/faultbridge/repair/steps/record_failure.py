"""The step RecordFailure: records an error that the state machine or the step runner caught."""

from __future__ import annotations

import logging

from faultbridge.decide import entry_builder
from faultbridge.model.enums import WaitingFor
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.repair.steps import return_to_service

NAME = "fail"


def record_failure(context: StepContext) -> StepResult:
    """End the failed attempt, and retry the case later or escalate it to an operator.

    The case is retried if the attempt has no intent (the point of no return), and if the policy permits another
    attempt. It is not retried while the result of a launch is unknown, because the next attempt has another token and
    could launch a second instance. If the failed step is ReturnToService, the node is first cordoned again.
    """
    if context.attempt.step == return_to_service.NAME:
        context = return_to_service.cordon_again(context)
    reason = context.request.error or "the step failed without an error message"
    step = context.attempt.step or "admission"
    draft = entry_builder.step(context.case, step, "error", context.now, reason=reason)
    text = f"{step} failed: {reason}"
    context.log("attempt_failed", text, logging.ERROR)
    attempt = context.attempt
    launched = attempt.launch_token is not None and attempt.successor is None
    if attempt.intent is None and not launched:
        return context.retry_or_escalate(WaitingFor.WAIT, text, draft)
    return context.escalate_to_operator(text, draft)
