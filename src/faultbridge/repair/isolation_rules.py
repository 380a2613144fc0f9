"""Isolation rules: which nodes must be isolated, and which nodes the circuit breakers keep in service."""

from __future__ import annotations

from faultbridge.domain.cluster.breakers import BreakerState
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation, NodeState

_OUT_OF_SERVICE = frozenset({NodeStatus.VALIDATING, NodeStatus.QUARANTINED, NodeStatus.FAILED})


def breaker_holds(control: Control, state: NodeState, *, ordered: bool) -> bool:
    """Return whether a breaker of the cluster or of the node's failure domain keeps the node in service.

    An open breaker permits no isolation. A half-open breaker permits it only if the node's repair starts (`ordered`).
    """
    breaker = control.breaker(state.placement.domain)
    return breaker is not None and (breaker.state is BreakerState.OPEN or not ordered)


def in_service(state: NodeState) -> bool:
    """Return whether jobs may run on the node."""
    return state.status is not None and state.status.in_service


def needs_isolation(state: NodeState, *, ordered: bool) -> bool:
    """Return whether a node in service must be isolated now because of its live case.

    The policy isolates a node at once (`Case.isolate`), or only when its repair starts (`ordered`). If no active fault
    needs a case, the node is isolated only if its case requires a verification anyway (`Case.keeps_out`).
    """
    case = state.live_case
    faulty = any(condition.action.opens_case for condition in state.active())
    return case is not None and (case.isolate or ordered) and in_service(state) and (faulty or case.keeps_out)


def waits_out_of_service(state: NodeState) -> bool:
    """Return whether a node out of service waits for its case while nothing confirms that it is cordoned.

    For example, a node with a new instance waits until its verification is admitted. A node in a repair attempt does
    not count, because the attempt itself cordons the node.
    """
    case = state.live_case
    waits = case is not None and case.status is not CaseStatus.IN_PROGRESS
    return waits and state.status in _OUT_OF_SERVICE and state.isolation is Isolation.REQUESTED
