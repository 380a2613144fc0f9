"""Isolation backoff: delays between calls to a failing orchestrator, and a page after five minutes."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.copies import replace
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.fold.node_conditions import NodeConditions
from faultbridge.ports import CallResult

MINUTE = timedelta(minutes=1)
OVERDUE_AFTER = 5 * MINUTE
"""How long the isolation of a node may fail before an operator is paged."""

FIRST_CALL_DELAY, MAX_CALL_DELAY = MINUTE / 2, 5 * MINUTE
"""The delay between two calls to a failing orchestrator; it doubles with each call."""

MAX_DOUBLINGS = 8
"""Limits the exponent of the doubling; the delay reaches its maximum long before."""


def record_failed_call(state: NodeState, at: datetime, answer: CallResult, limits: Limits) -> Transition:
    """Record a failed orchestrator call and schedule the next call.

    Once the isolation has failed for five minutes, also page an operator, but only once. Any other failure is noted in
    the timeline at most once a day for each failure code.
    """
    failure = answer.failure.value if answer.failure else ""
    reason = answer.reason or failure
    lost_at = (state.orchestrator_lost_at or at) if answer.inconclusive else None
    scheduled = schedule_call(replace(state, orchestrator_lost_at=lost_at), at, limits)
    if is_overdue(scheduled, at):
        text = f"the orchestrator has failed for {OVERDUE_AFTER // MINUTE} minutes: {reason}"
        return page_overdue(scheduled, at, text, failure)
    folding = NodeConditions(scheduled, Catalog(""))
    if not folding.first_of_the_day(f"isolation:{failure}", at):
        return Transition(scheduled)
    draft = isolation_note(scheduled, f"the orchestrator failed and is called again: {reason}", at, failure)
    return Transition(folding.state(), (draft,))


def is_overdue(state: NodeState, at: datetime) -> bool:
    """Return whether isolation has failed for five minutes and no operator was paged for this yet."""
    since = state.isolation_since
    return since is not None and not state.isolation_overdue and at - since >= OVERDUE_AFTER


def schedule_call(state: NodeState, at: datetime, limits: Limits) -> NodeState:
    """Schedule the next call to a failing orchestrator. The delay doubles with each call, up to a limit.

    The next call is made earlier if one of two times comes before the end of the delay: five minutes after the start of
    the isolation, when an operator is paged, or the end of the policy's `orchestrator_timeout`.
    """
    again = at + min(FIRST_CALL_DELAY * (1 << min(state.isolation_tries, MAX_DOUBLINGS)), MAX_CALL_DELAY)
    since = state.isolation_since
    if since is not None and not state.isolation_overdue and at - since < OVERDUE_AFTER:
        again = min(again, since + OVERDUE_AFTER)
    lost_at = state.orchestrator_lost_at
    if lost_at is not None and at < lost_at + limits.orchestrator_timeout:
        again = min(again, lost_at + limits.orchestrator_timeout)
    return replace(state, isolation_tries=state.isolation_tries + 1, isolation_again_at=again)


def page_overdue(state: NodeState, at: datetime, text: str, failure: str = "TIMEOUT") -> Transition:
    """Page an operator because the orchestrator has not isolated the node for too long.

    `text` is the text of the note that triggers the page, and `failure` the failure code in the note.
    """
    draft = isolation_note(state, text, at, failure, stage="overdue")
    return Transition(replace(state, isolation_overdue=True), (draft,))


def end_backoff(state: NodeState, at: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Return the node without the fields of the backoff, because the orchestrator answers again.

    If an operator was paged, a note that resolves the page is returned too.
    """
    cleared = replace(
        state,
        isolation_since=None,
        isolation_overdue=False,
        isolation_tries=0,
        isolation_again_at=None,
        orchestrator_lost_at=None,
        discouraged=False,
    )
    if not state.isolation_overdue:
        return cleared, ()
    return cleared, (isolation_note(state, "the orchestrator answers again", at, stage="over"),)


def isolation_note(state: NodeState, text: str, at: datetime, failure: str = "", stage: str | None = None) -> Draft:
    """Draft a note about a node's isolation.

    The stage `overdue` triggers a page, and `over` resolves the page. With None, the note affects no page. `failure` is
    the code of the failed orchestrator call, or "" if the note is about no failed call.
    """
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    case_id = case.id if case else None
    return entry_builder.note(kind="isolation", text=text, at=at, case_id=case_id, facts=facts, stage=stage)
