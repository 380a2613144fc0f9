"""Record failure: what the state machine caught and no step could name itself."""

from __future__ import annotations

from faultbridge.domain.cases import WaitingFor
from faultbridge.errors import Transient
from faultbridge.services.replacement import return_to_service
from faultbridge.services.replacement.outcomes import Answer
from faultbridge.services.replacement.work import Work
from faultbridge.stages import narrate

NAME = "fail"


def record_failure(work: Work) -> Answer:
    """Try again later what failed before the intent; hand over what failed after it."""
    work = _kept_off(work)
    reason = work.request.error or "a step failed without a word"
    step = work.attempt.step or "admission"
    draft = narrate.step(work.case, step, "error", work.tools.clock.now(), reason=reason)
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
