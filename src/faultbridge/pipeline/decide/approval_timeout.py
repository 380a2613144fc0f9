"""Lapse: a question that nobody answered in time goes to a person who must."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import CaseStatus
from faultbridge.pipeline.decide.decide import move_case


def lapse(decided: Transition, now: datetime) -> Transition:
    """Hand over a case whose approval was not given by its deadline."""
    case = decided.state.live_case
    asking = case.asking if case else None
    if case is None or asking is None or asking.answer_by > now:
        return decided
    reason = "nobody approved the repair in time"
    handed = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, reason=reason)
    return move_case(decided, handed, now, reason)
