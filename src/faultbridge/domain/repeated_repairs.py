"""Repeated repairs: whether a repair follows a failed attempt, and which faults the new instance has.

A cause that the node shares with its neighbors, such as a dead switch, also makes the verification of a healthy
instance fail. A repeated repair therefore also waits for an incident in its failure domains even if the node has no
fault of the incident's family.
"""

from __future__ import annotations

from faultbridge.domain.cases import Phase
from faultbridge.domain.conditions import Condition
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState

_TRIED = frozenset({Phase.INTENT.value, Phase.VERIFYING.value})
"""The phases that an attempt reaches only if it acts on the instance or verifies it."""


def is_repeated(state: NodeState) -> bool:
    """Return whether the next repair of a node follows a failed attempt of its case.

    An attempt counts if it reached its intent or its verification.

    Returns False for a canceled case, because its node is only verified. Returns False if the node's old instance is
    already released, because the repair then only waits for the successor.
    """
    case = state.live_case
    if case is None or case.cancelled or state.status is NodeStatus.PROVISIONING:
        return False
    return not _TRIED.isdisjoint(case.marks)


def is_replaced(state: NodeState) -> bool:
    """Return whether the live case replaced the instance, and the new instance is in its first boot."""
    case, incarnation = state.live_case, state.incarnation
    if case is None or incarnation is None or Phase.INTENT.value not in case.marks:
        return False
    first_boot = incarnation.instance > 1 and incarnation.boot == 1  # another boot is still the same instance
    return first_boot and incarnation.since >= case.opened_at


def is_former(state: NodeState, condition: Condition) -> bool:
    """Return whether a condition was last observed on an instance that the live case has replaced."""
    since = state.incarnation.since if state.incarnation else None
    return is_replaced(state) and since is not None and condition.last_at <= since


def is_faulty(state: NodeState) -> bool:
    """Return whether an active condition of the node's current instance requires a case."""
    return any(one.action.opens_case and not is_former(state, one) for one in state.active())
