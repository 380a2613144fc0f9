"""Repair actions: choose the repair action of the next attempt, and the next stronger one."""

from __future__ import annotations

from typing import NamedTuple

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy

_ORDER = list(RepairAction)


class Choice(NamedTuple):
    """The chosen repair action, or None if an operator must act; `reason` says why it is not the requested one."""

    repair_action: RepairAction | None
    reason: str = ""


def choose_repair_action(state: NodeState, case: Case, policy: Policy) -> Choice:
    """Choose the repair action of the next attempt.

    A node that recovered before its first attempt is only verified. A repair action that the rule does not permit is
    replaced by the next stronger permitted one.
    """
    if case.attempts == 0 and not any(condition.action.opens_case for condition in state.active()):
        return Choice(RepairAction.VERIFY, "no active condition needs a repair; the node is only verified")
    requested = case.repair_action
    if requested is RepairAction.VERIFY or requested in policy.rule_named(case.rule).repair_actions:
        return Choice(requested)
    permitted = next_repair_action(case, policy, at_least=requested)
    if permitted is None:
        return Choice(None, f"rule {case.rule} permits neither {requested.value} nor a stronger repair action")
    return Choice(
        permitted,
        f"rule {case.rule} permits no {requested.value}; {permitted.value} is the next permitted repair action",
    )


def required_repair_action(state: NodeState, case: Case, policy: Policy) -> RepairAction:
    """Return the strongest repair action that the case or an active condition of the node requires."""
    required = (
        policy.rule_for(condition, state.key.cluster, state.placement.instance_type).repair_action(condition.action)
        for condition in state.active()
        if condition.action.opens_case and condition.known_incarnation
    )
    return max((case.repair_action, *(action for action in required if action is not None)), key=_ORDER.index)


def next_repair_action(case: Case, policy: Policy, *, at_least: RepairAction) -> RepairAction | None:
    """Return the least disruptive permitted repair action that is at least as strong as `at_least`, or None."""
    permitted = policy.rule_named(case.rule).repair_actions
    return next((action for action in _ORDER[_ORDER.index(at_least) :] if action in permitted), None)


def next_higher(repair_action: RepairAction) -> RepairAction | None:
    """Return the next stronger repair action, or None after the strongest."""
    following = _ORDER[_ORDER.index(repair_action) + 1 :]
    return following[0] if following else None
