"""Claims: the life of a condition that only senders report that did not prove to be the node."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import NodeState


def is_unproven(state: NodeState, condition: Condition) -> bool:
    """Return whether only claims assert a condition, and no failed verification has confirmed it.

    A failed verification confirms the claimed conditions that are active at that time, for the instance and the boot
    that failed. A condition that is claimed later needs a verification of its own.
    """
    if not condition.claimed:
        return False
    since = state.incarnation.since if state.incarnation else None
    return condition.confirmed_at is None or (since is not None and condition.confirmed_at < since)


def confirm_claims(state: NodeState, now: datetime) -> NodeState:
    """Return the node after a failed verification, which confirms the claimed conditions that are active now."""
    claimed = {key: replace(one, confirmed_at=now) for key, one in state.conditions.items() if one.claimed}
    return replace(state, conditions={**state.conditions, **claimed})
