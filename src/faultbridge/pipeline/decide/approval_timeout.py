"""Approval timeout: a case whose approval request gets no answer by its deadline is escalated to an operator."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.pipeline.decide.case_moves import escalate_case


def expire_approval(decided: Transition, now: datetime) -> Transition:
    """Escalate the live case when its approval request was not answered by the deadline."""
    case = decided.state.live_case
    request = case.pending_approval if case else None
    if case is None or request is None or request.answer_by > now:
        return decided
    return escalate_case(decided, case, now, "approval timed out: no operator answered by the deadline")
