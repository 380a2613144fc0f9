"""Approval timeout: escalates a case to an operator if its approval request was not answered in time."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.pipeline.decide.case_moves import escalate_case


def expire_approval(decided: Transition, now: datetime) -> Transition:
    """Escalate the live case if the deadline of its unanswered approval request has passed."""
    case = decided.state.live_case
    request = case.pending_approval if case else None
    if case is None or request is None or request.answer_by > now:
        return decided
    return escalate_case(decided, case, now, "approval timed out: no operator answered by the deadline")
