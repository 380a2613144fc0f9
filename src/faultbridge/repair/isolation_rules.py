"""Isolation rules: which nodes that are out of service still wait for a confirmed cordon."""

from __future__ import annotations

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation, NodeState

_OUT_OF_SERVICE = frozenset({NodeStatus.VALIDATING, NodeStatus.QUARANTINED, NodeStatus.FAILED})


def waits_out_of_service(state: NodeState) -> bool:
    """Return whether a node out of service waits for its case while nothing confirms that it is cordoned.

    For example, a node with a new instance waits until its verification is admitted. A node in a repair attempt does
    not count, because the attempt itself cordons the node.
    """
    case = state.live_case
    waits = case is not None and case.status is not CaseStatus.IN_PROGRESS
    return waits and state.status in _OUT_OF_SERVICE and state.isolation is Isolation.REQUESTED
