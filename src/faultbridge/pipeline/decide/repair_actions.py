"""Repair actions: choose the repair action of the next attempt, and the next stronger one."""

from __future__ import annotations

from typing import NamedTuple

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline.decide.governing_rules import requirements, rule_of_case

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
    requested, rule = case.repair_action, rule_of_case(state, case, policy)
    if requested is RepairAction.VERIFY or requested in rule.repair_actions:
        return Choice(requested)
    permitted = next_repair_action(rule, at_least=requested)
    if permitted is None:
        return Choice(None, f"rule {rule.name} permits neither {requested.value} nor a stronger repair action")
    return Choice(
        permitted,
        f"rule {rule.name} permits no {requested.value}; {permitted.value} is the next permitted repair action",
    )


def required_repair_action(state: NodeState, case: Case, policy: Policy) -> RepairAction:
    """Return the strongest repair action that the case or an active condition of the node requires."""
    required = (one.repair_action for one in requirements(state, policy))
    return max((case.repair_action, *(action for action in required if action is not None)), key=_ORDER.index)


def next_repair_action(rule: Rule, *, at_least: RepairAction) -> RepairAction | None:
    """Return the least disruptive permitted repair action that is at least as strong as `at_least`, or None."""
    return next((action for action in _ORDER[_ORDER.index(at_least) :] if action in rule.repair_actions), None)


def next_higher(repair_action: RepairAction) -> RepairAction | None:
    """Return the next stronger repair action, or None after the strongest."""
    following = _ORDER[_ORDER.index(repair_action) + 1 :]
    return following[0] if following else None
