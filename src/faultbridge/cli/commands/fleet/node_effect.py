"""Show the effect of an operator's order on a node: its new state, and what happens next."""

from __future__ import annotations

import time

from faultbridge.cli.render.columns import NODE, node_document
from faultbridge.cli.render.output import notice
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeState

POLL_SECONDS = 0.5
MAX_POLLS = 20
_UNDECIDED = frozenset({None, WaitingFor.ADMISSION})


def show_effect(session: Session, state: NodeState) -> None:
    """Wait up to 10 seconds until an order has taken effect, then print the node.

    An order is recorded immediately. The stack processes it within seconds, unless a repair limit delays it.
    """
    for _ in range(MAX_POLLS):
        if not _pending(state):
            break
        wait()
        state = session.directory.node(state.key)
    session.show_one(node_document(state), NODE)
    if session.prints_table:
        notice(_next_text(state))


def wait() -> None:
    """Wait half a second, until the next poll of the node."""
    time.sleep(POLL_SECONDS)


def _pending(state: NodeState) -> bool:
    """Return whether an operator's order has not taken effect on the node yet."""
    case = state.live_case
    if case is None or state.status is None:
        return False
    undecided = case.status in {CaseStatus.OPEN, CaseStatus.QUEUED} and case.waiting_for in _UNDECIDED
    return undecided or state.status.in_service


def _next_text(state: NodeState) -> str:
    case = state.live_case
    if case is None:
        return "the order is recorded"
    if case.status is CaseStatus.ESCALATED:
        return f"the node waits for `faultbridge node return {state.key.node} --cluster {state.key.cluster}`"
    waits = f" and waits for {case.waiting_for}" if case.waiting_for else ""
    return f"the order is recorded{waits}; `faultbridge case watch {case.id}` shows what happens next"
