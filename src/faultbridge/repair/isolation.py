"""Changes of a node's isolation, and the log line of each decision about it."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from faultbridge.decide import entry_builder
from faultbridge.decide.fold.node_conditions import NodeConditions
from faultbridge.decide.work import MAX_WITHDRAWALS, work_stays
from faultbridge.model.catalog import Catalog
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, NoteKind
from faultbridge.model.isolation import needs_isolation
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.values import replace
from faultbridge.record.append import Revise
from faultbridge.record.ports import CallResult

_OUT_OF_SERVICE = frozenset({NodeStatus.VALIDATING, NodeStatus.QUARANTINED, NodeStatus.FAILED})


def waits_out_of_service(state: NodeState) -> bool:
    """Return whether a node waits out of service, outside an attempt, without a confirmed cordon."""
    case = state.live_case
    waits = case is not None and case.status is not CaseStatus.IN_PROGRESS
    return waits and state.status in _OUT_OF_SERVICE and state.isolation is Isolation.REQUESTED


CORDONED = "in service, cordoned: no new work; running work stays"
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
    """Page an operator because the orchestrator has not isolated the node for too long."""
    draft = isolation_note(state, text, at, failure, stage="overdue")
    return Transition(replace(state, isolation_overdue=True), (draft,))


def end_backoff(state: NodeState, at: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Return the node without its backoff, and the note that resolves the page, if there was one."""
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
    """Draft a note about a node's isolation; `overdue` triggers a page, and `over` resolves it."""
    case = state.live_case
    facts = {"failure": failure} if failure else {}
    case_id = case.id if case else None
    return entry_builder.note(kind=NoteKind.ISOLATION, text=text, at=at, case_id=case_id, facts=facts, stage=stage)


def confirm(how: Isolation, reason: str, *, ordered: bool) -> Revise:
    """Return the change that quarantines a node, if it still needs isolation.

    `how` is the isolation to store: `confirmed`, `not_applicable` if no orchestrator cordons the node, or `requested`
    for a dead instance without a confirmation. `ordered` is True if the node's repair starts.

    A cordoned node whose work is not lost stays in service, because its work continues (`Isolate.take_out`).
    """

    def revise(now: NodeState, at: datetime) -> Transition:
        # If the node recovered in the meantime, the request stays recorded until it is withdrawn.
        if not needs_isolation(now, ordered=ordered):
            return Transition(now)
        isolated, drafts = end_backoff(replace(now, isolation=how), at)
        case = now.live_case
        if how is Isolation.CONFIRMED and case is not None and work_stays(now, case):
            cordoned = now.isolation is Isolation.CONFIRMED
            return Transition(isolated, drafts if cordoned else (*drafts, _in_service(isolated, CORDONED, at)))
        return quarantine(isolated, at, reason, *drafts)

    return revise


def _in_service(state: NodeState, reason: str, at: datetime) -> Draft:
    """Draft the entry of a change of isolation that leaves the node in service."""
    status = state.status or NodeStatus.DEGRADED
    return entry_builder.status_change(state, status, at, reason)


def withdraw(state: NodeState, at: datetime, reason: str) -> Transition:
    """Return the transition of a node in service whose cordon is removed; the next tick may make it healthy."""
    recent = state.withdrawals[1 - MAX_WITHDRAWALS :]
    free = replace(state, isolation=Isolation.NONE, withdrawals=(*recent, at), due_at=at)
    serving, drafts = end_backoff(free, at)
    return Transition(serving, (_in_service(serving, reason, at), *drafts))


def unless_superseded(called: NodeState, revise: Revise) -> Revise:
    """Return a change after a cordon that requests the isolation again if it changed since the call was made."""

    def if_current(now: NodeState, at: datetime) -> Transition:
        if now.isolation_number == called.isolation_number or now.incarnation != called.incarnation:
            return revise(now, at)
        return request_again(now, at)

    return if_current


def confirm_cordon(state: NodeState, at: datetime) -> Transition:
    """Return the transition that records that the orchestrator confirmed the cordon of a node."""
    return Transition(*end_backoff(replace(state, isolation=Isolation.CONFIRMED), at))


def request_again(state: NodeState, at: datetime) -> Transition:
    """Return the transition to a requested isolation, because it is not known whether the node is cordoned."""
    if state.isolation in {Isolation.REQUESTED, Isolation.NOT_APPLICABLE} or state.status in {None, NodeStatus.RETIRED}:
        return Transition(state)
    # Without the time of the request, a missing cordon would never count as overdue.
    return Transition(replace(state, isolation=Isolation.REQUESTED, isolation_since=at))


def quarantine(state: NodeState, at: datetime, reason: str, *drafts: Draft) -> Transition:
    """Return the transition of the node to `quarantined`."""
    draft = entry_builder.status_change(state, NodeStatus.QUARANTINED, at, reason)
    return Transition(replace(state, status=NodeStatus.QUARANTINED), (*drafts, draft))


def log_isolation(state: NodeState, decision: str, reason: str, level: int = logging.INFO, **fields: object) -> None:
    """Log one decision about the isolation of a node."""
    ids = {"cluster": state.key.cluster, "node": state.key.node}
    log_cause(decision, reason=reason, level=level, case_id=state.live_case and state.live_case.id, **ids, **fields)
