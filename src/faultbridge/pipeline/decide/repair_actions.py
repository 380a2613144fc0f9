"""Ladder: at which repair action an attempt begins, and which follows where it was not enough."""

from __future__ import annotations

from typing import NamedTuple

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule


class Choice(NamedTuple):
    """The repair action of the next attempt, None where a person must act, and why it is not the case's own."""

    repair_action: RepairAction | None
    reason: str = ""


def choose(state: NodeState, case: Case, policy: Policy) -> Choice:
    """Choose the repair action of the next attempt; a node that recovered before its first one is verified, not replaced."""
    if case.attempts == 0 and not any(condition.action.opens_case for condition in state.active()):
        return Choice(RepairAction.VERIFY, "nothing is wrong any more; verified before it serves again")
    if case.repair_action is RepairAction.VERIFY or case.repair_action in _rule(case, policy).repair_actions:
        return Choice(case.repair_action)
    found = next_repair_action(case, policy, at_least=case.repair_action)
    if found is None:
        return Choice(None, f"rule {case.rule} permits no repair action from {case.repair_action.value} on")
    return Choice(
        found,
        f"rule {case.rule} permits no {case.repair_action.value}; {found.value} is the next repair action permitted",
    )


def wanted(state: NodeState, case: Case, policy: Policy) -> RepairAction:
    """Return the highest repair action that anything active on the node asks for, never a milder one than the case's own."""
    asked = (
        policy.rule_for(one, state.key.cluster, state.placement.instance_type).repair_action(one.action)
        for one in state.active()
        if one.action.opens_case and one.known_incarnation
    )
    order = list(RepairAction)
    return max(
        (case.repair_action, *(repair_action for repair_action in asked if repair_action is not None)), key=order.index
    )


def next_repair_action(case: Case, policy: Policy, *, at_least: RepairAction) -> RepairAction | None:
    """Return the mildest repair action from here on that the case's rule permits, or None."""
    order = list(RepairAction)
    repair_actions = _rule(case, policy).repair_actions
    return next(
        (repair_action for repair_action in order[order.index(at_least) :] if repair_action in repair_actions), None
    )


def above(repair_action: RepairAction) -> RepairAction | None:
    """Return the repair action that follows, or None at the end of the list of repair actions."""
    order = list(RepairAction)
    following = order[order.index(repair_action) + 1 :]
    return following[0] if following else None


def _rule(case: Case, policy: Policy) -> Rule:
    return next((rule for rule in policy.rules if rule.name == case.rule), Rule(case.rule))
