"""Patience: what is noted of a node while the orchestrator does not do what it was asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.pipeline import entry_builder

MINUTE = timedelta(minutes=1)
OVERDUE = 5 * MINUTE
"""How long the orchestrator may refuse before a person is told."""

FIRST_PAUSE, MAX_PAUSE = MINUTE / 2, 5 * MINUTE
"""Between two calls to an orchestrator that does not do it; the pause doubles."""


def is_overdue(state: NodeState, at: datetime) -> bool:
    """Tell whether a person must hear of it now."""
    since = state.isolation_since
    return since is not None and not state.isolation_overdue and at - since >= OVERDUE


def postponed(state: NodeState, at: datetime, limits: Limits) -> NodeState:
    """Let the next call wait, twice as long each time, but not beyond what happens when the time is over."""
    again = at + min(FIRST_PAUSE * (1 << min(state.isolation_tries, 8)), MAX_PAUSE)
    since = state.isolation_since
    if since is not None and not state.isolation_overdue and at - since < OVERDUE:
        again = min(again, since + OVERDUE)
    lost_at = state.orchestrator_lost_at
    if lost_at is not None and at < lost_at + limits.orchestrator_timeout:
        again = min(again, lost_at + limits.orchestrator_timeout)
    return replace(state, isolation_tries=state.isolation_tries + 1, isolation_again_at=again)


def overdue(state: NodeState, at: datetime, text: str, failure: str = "TIMEOUT") -> Transition:
    """Tell a person that the orchestrator has not done what it was asked for too long."""
    return Transition(replace(state, isolation_overdue=True), (note(state, text, at, failure, stage="overdue"),))


def in_time_again(state: NodeState, at: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Forget since when isolation was asked for, and end the page of one that took too long."""
    settled = replace(
        state,
        isolation_since=None,
        isolation_overdue=False,
        isolation_tries=0,
        isolation_again_at=None,
        orchestrator_lost_at=None,
    )
    if not state.isolation_overdue:
        return settled, ()
    return settled, (note(state, "the orchestrator answers again", at, stage="over"),)


def note(state: NodeState, text: str, at: datetime, failure: str = "", stage: str | None = None) -> Draft:
    """Draft a note about a node's isolation; `stage` begins or ends a page."""
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    case_id = case.id if case else None
    return entry_builder.note(kind="isolation", text=text, at=at, case_id=case_id, facts=facts, stage=stage)
