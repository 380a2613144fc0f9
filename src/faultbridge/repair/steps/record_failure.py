"""Record failure: what the state machine caught and no step could name itself."""

from __future__ import annotations

from faultbridge.domain.cases import WaitingFor
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.repair.attempt.contract import Answer
from faultbridge.repair.attempt.step_context import Work
from faultbridge.repair.steps import return_to_service

NAME = "fail"


def record_failure(work: Work) -> Answer:
    """Try again later what failed before the intent; hand over what failed after it."""
    work = _kept_off(work)
    reason = work.request.error or "a step failed without a word"
    step = work.attempt.step or "admission"
    draft = entry_builder.step(work.case, step, "error", work.tools.clock.now(), reason=reason)
    text = f"{step} failed: {reason}"
    if work.attempt.intent is None:
        return work.retry_or_escalate(WaitingFor.WAIT, text, draft)
    return work.escalate(text, draft)


def _kept_off(work: Work) -> Work:
    """Keep work off again: a return that failed without a word may have let it back."""
    returning = work.attempt.step == return_to_service.NAME and not work.rules.config.follows
    if not returning or not work.orchestrator.applicable:
        return work
    answer = work.orchestrator.cordon(work.member)
    if not answer.ok:
        raise Transient(f"the node may have been let back and cannot be kept out again: {answer.reason}")
    return work
