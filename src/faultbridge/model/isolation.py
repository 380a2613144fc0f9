"""Isolation of one node: whether it takes new work, must be isolated, is lost, and needs a permit for its isolation.

The isolation budget of a cluster (`pipeline.decide.isolation_budget`) limits the nodes that take no new work.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.cases import ESCALATED_AT
from faultbridge.model.catalog import LOST
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus
from faultbridge.model.nodes import NodeState
from faultbridge.model.times import from_text
from faultbridge.model.values import replace

ORDERED = "operator."
"""The start of the codes of conditions that an operator's order opens."""

ENDS_SOON = timedelta(hours=1)
"""A node whose end the provider has dated within this time needs no permit."""

_END_DATES = ("not_before", "start_time")
_DATED_BY = frozenset({"ec2-status", "health-event"})
"""The sources that state when the provider ends an instance. A date of any other source proves nothing."""

_INTERRUPTED = "cloud.spot_interruption"
_JOINING = frozenset({NodeStatus.PROVISIONING, NodeStatus.VALIDATING})


def in_service(state: NodeState) -> bool:
    """Return whether jobs may run on the node."""
    return state.status is not None and state.status.in_service


def takes_work(state: NodeState) -> bool:
    """Return whether the node takes new work: it is in service, and its isolation is not even requested."""
    return in_service(state) and state.isolation is Isolation.NONE


def needs_isolation(state: NodeState, *, ordered: bool) -> bool:
    """Return whether a node in service must be isolated now because of its live case.

    A node whose work is lost or at risk is isolated at once (`Case.isolate`), any other one only when its repair starts
    (`ordered`). If no active fault needs a case, the node is isolated only if its case requires a verification anyway
    (`Case.keeps_out`).
    """
    case = state.live_case
    faulty = any(condition.action.opens_case for condition in state.active())
    return case is not None and (case.isolate or ordered) and in_service(state) and (faulty or case.keeps_out)


def losses(state: NodeState) -> tuple[Condition, ...]:
    """Return the proven conditions that ended work on the node and need a case."""
    return tuple(
        one
        for one in state.active()
        if one.work in LOST and one.action.opens_case and one.known_incarnation and not one.claimed
    )


def needs_permit(state: NodeState, now: datetime | None = None) -> bool:
    """Return whether the isolation budget must permit the isolation of a node that takes new work.

    A lost node needs no permit, nor does a node that an operator ordered out of service. Neither does a node whose end
    the provider has dated within an hour after `now`; with None, such a date does not count.
    """
    if not takes_work(state) or losses(state):
        return False
    return not any(one.code.startswith(ORDERED) or _ends_soon(one, now) for one in state.active())


def _ends_soon(condition: Condition, now: datetime | None) -> bool:
    if now is None or condition.claimed:
        return False
    if condition.code == _INTERRUPTED:
        return True
    found = [condition.attributes.get(name) for name in _END_DATES] if condition.sources & _DATED_BY else []
    return any(_is_before(date, now + ENDS_SOON) for date in found if date)


def _is_before(date: str, limit: datetime) -> bool:
    try:
        return from_text(date) <= limit
    except ValueError:  # the date is text of a report
        return False


def without_spent_permit(state: NodeState) -> NodeState:
    """Return the node without its permit if it takes new work again, is lost, or was removed."""
    spent = takes_work(state) or state.status in {None, NodeStatus.RETIRED} or bool(losses(state))
    return replace(state, permitted_at=None) if spent and state.permitted_at is not None else state


def numbered(before: NodeState, after: NodeState) -> NodeState:
    """Return the node with the next isolation number if its isolation changed."""
    changed = after.isolation is not before.isolation
    return replace(after, isolation_number=before.isolation_number + 1) if changed else after


def left_at(state: NodeState) -> datetime | None:
    """Return since when an operator, and not a repair, decides on the node; None if a repair still does.

    This is so for an escalated case, and for a node that is ignored.
    """
    case = state.live_case
    escalated = case.marks.get(ESCALATED_AT) if case and case.status is CaseStatus.ESCALATED else None
    ignored = state.ignored.since if state.ignored else None
    return min((one for one in (escalated, ignored) if one is not None), default=None)


def is_joining(state: NodeState) -> bool:
    """Return whether the node has never served: it waits for its first instance, or for the first verification."""
    case = state.live_case
    return state.status in _JOINING and (case is None or case.before_service)
