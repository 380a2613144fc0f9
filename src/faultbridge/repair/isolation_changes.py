"""Changes of a node's isolation, and the log line of each decision about it."""

from __future__ import annotations

import logging
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.isolation import needs_isolation
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.ledger.append import Revise
from faultbridge.log import log_cause
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.repair_actions import rests_on_claims
from faultbridge.repair.isolation_backoff import end_backoff, isolation_note


def confirm(how: Isolation, reason: str, *, ordered: bool) -> Revise:
    """Return the change that quarantines a node, if it still needs isolation.

    `how` is the isolation to store: `confirmed`, `not_applicable` if no orchestrator cordons the node, or `requested`
    for a dead instance without a confirmation. `ordered` is True if the node's repair starts.

    A cordoned node whose case rests on claims stays in service, because its work continues (`Isolate.take_out`).
    """

    def revise(now: NodeState, at: datetime) -> Transition:
        # If the node recovered in the meantime, the request stays recorded until it is withdrawn.
        if not needs_isolation(now, ordered=ordered):
            return Transition(now)
        isolated, drafts = end_backoff(replace(now, isolation=how), at)
        case = now.live_case
        if how is Isolation.CONFIRMED and case is not None and rests_on_claims(now, case):
            return Transition(isolated, (*drafts, *_cordoned(now, reason, at)))
        return quarantine(isolated, at, reason, *drafts)

    return revise


def _cordoned(state: NodeState, reason: str, at: datetime) -> tuple[Draft, ...]:
    if state.isolation is Isolation.CONFIRMED:
        return ()
    return (isolation_note(state, f"{reason}: no new work; running work continues until the fault is proven", at),)


def confirm_cordon(state: NodeState, at: datetime) -> Transition:
    """Return the transition that records that the orchestrator confirmed the cordon of a node."""
    return Transition(*end_backoff(replace(state, isolation=Isolation.CONFIRMED), at))


def request_again(state: NodeState, at: datetime) -> Transition:
    """Return the transition from a confirmed to a requested isolation, because the cordon may be gone."""
    if state.isolation is not Isolation.CONFIRMED:
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
