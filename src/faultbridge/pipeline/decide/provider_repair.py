"""Held: whether a node is left to its repair, or the inventory's to fill."""

from __future__ import annotations

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import NodeState

FOLLOW = "follow"
"""The step that waits for what the provider does."""

LEFT_TO_ITS_REPAIR = frozenset({CaseStatus.IN_PROGRESS, CaseStatus.ABSORBED})


def may_change_instance(state: NodeState) -> bool:
    """Tell whether a node is the inventory's to fill: no attempt of ours is at work on it, and it is not retired."""
    if state.status in {None, NodeStatus.RETIRED, NodeStatus.REPLACING}:
        return False
    case = state.live_case
    return case is None or case.status not in LEFT_TO_ITS_REPAIR or is_followed(state)


def is_followed(state: NodeState) -> bool:
    """Tell whether an attempt waits for nothing but what the provider does to the node."""
    attempt = state.live_case.attempt if state.live_case else None
    return attempt is not None and attempt.step == FOLLOW and FOLLOW not in attempt.steps
