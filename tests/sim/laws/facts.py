"""What the stored state of a node says, read without the decision functions of the product."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.model.conditions import Condition, code_of
from faultbridge.model.enums import Isolation
from faultbridge.model.nodes import NodeState

OPERATOR = "operator."
STRENGTH = ("none", "run_diagnostics", "reset_gpu", "reboot_node", "replace_node")
"""The actions that repair a node, from the weakest. Other actions require no repair."""

ISOLATED = frozenset({Isolation.REQUESTED, Isolation.CONFIRMED})


def proven(state: NodeState) -> Iterator[Condition]:
    """Yield the active conditions that a sender reports who proved to be the node, or that the product observed."""
    for condition in state.conditions.values():
        if any(one.active and not one.claimed for one in condition.reporters.values()):
            yield condition


def proven_codes(condition: Condition) -> frozenset[str]:
    """Return the fault codes under which such senders report a condition; claims may add other codes of its mode."""
    return frozenset(code_of(key) for key, one in condition.reporters.items() if one.active and not one.claimed)


def claimed(state: NodeState) -> Iterator[Condition]:
    """Yield the active conditions that only claims report."""
    for condition in state.conditions.values():
        active = [one for one in condition.reporters.values() if one.active]
        if active and all(one.claimed for one in active):
            yield condition


def is_lost(state: NodeState) -> bool:
    """Return whether a proven condition of the current instance is fatal."""
    return any(one.severity.value == "fatal" for one in proven(state))


def is_ordered(state: NodeState) -> bool:
    """Return whether people ordered what happens to the node."""
    case = state.live_case
    if case is not None and (case.code.startswith(OPERATOR) or (case.approval is not None and case.approval.granted)):
        return True
    return any(one.active and one.code.startswith(OPERATOR) for one in state.conditions.values())


def is_out(state: NodeState) -> bool:
    """Return whether a registered node takes no new work, by its status or its isolation."""
    status = state.status
    return status is not None and status.value != "retired" and (not status.in_service or state.isolation in ISOLATED)


def instance_of(state: NodeState) -> str | None:
    """Return the id of the instance that backs a node, or None."""
    return state.incarnation.instance_id if state.incarnation else None


def rank(action: str) -> int:
    """Return the strength of an action, 0 for an action that repairs nothing."""
    action = "run_diagnostics" if action == "verify" else action
    return STRENGTH.index(action) if action in STRENGTH else 0
