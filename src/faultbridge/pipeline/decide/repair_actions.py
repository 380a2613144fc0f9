"""Repair actions: choose the repair action of the next attempt, and the next stronger repair action."""

from __future__ import annotations

from typing import NamedTuple

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline.decide.governing_rules import requirements, rule_of_case
from faultbridge.pipeline.fold.claims import is_unproven

_ORDER = list(RepairAction)
_NOTHING = _ORDER.index(RepairAction.VERIFY)
"""The index in `_ORDER` of `verify`, the repair action that changes nothing."""


class Choice(NamedTuple):
    """The chosen repair action, or None if an operator must act.

    `reason` states why the requested action was not chosen, or why the node is only verified. Otherwise, it is empty.
    """

    repair_action: RepairAction | None
    reason: str = ""


def choose_repair_action(state: NodeState, case: Case, policy: Policy) -> Choice:
    """Choose the repair action of the next attempt. The requested action is that of the case.

    - At the first attempt, the node is only verified if no active condition needs a repair.
    - If only claimed conditions require the requested action, the node is verified first, unless an operator approved
      the action or a verification failed. The senders of claimed conditions did not prove to be the node.
    - A repair action that the rule does not permit is replaced by the next stronger permitted one. If there is none, an
      operator must act.
    """
    if case.attempts == 0 and not any(condition.action.opens_case for condition in state.active()):
        return Choice(RepairAction.VERIFY, "no active condition needs a repair; the node is only verified")
    requested, rule = case.repair_action, rule_of_case(state, case, policy)
    if requested is not RepairAction.VERIFY and unconfirmed(state, case, policy):
        return Choice(RepairAction.VERIFY, "no proven sender reports the fault; diagnostics have to confirm it")
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
    """Return the strongest repair action that the case or a confirmed active condition requires.

    A condition is confirmed if it is not claimed, or if a verification has failed while it was active.
    """
    return max((case.repair_action, *_required(believed(state), policy)), key=_ORDER.index)


def unconfirmed(state: NodeState, case: Case, policy: Policy) -> bool:
    """Return whether only claimed conditions require the repair action of the next attempt.

    A claimed condition has only reports whose sender did not prove to be the node. A failed verification of the
    instance confirms the condition. An operator who approves the repair action confirms it too.
    """
    claimed = [_ORDER.index(one) for one in _required(_with_claims_only(state), policy)]
    if not claimed or case.approved:
        return False
    proven = max((_ORDER.index(one) for one in _required(believed(state), policy)), default=_NOTHING)
    return proven == _NOTHING or max(claimed) >= _ORDER.index(case.repair_action) > proven


def believed(state: NodeState) -> NodeState:
    """Return the node without the claimed conditions that no failed verification has confirmed."""
    if not any(is_unproven(state, one) for one in state.active()):
        return state
    return replace(state, conditions={key: one for key, one in state.conditions.items() if not is_unproven(state, one)})


def _with_claims_only(state: NodeState) -> NodeState:
    return replace(state, conditions={key: one for key, one in state.conditions.items() if is_unproven(state, one)})


def rests_on_claims(state: NodeState, case: Case) -> bool:
    """Return whether only claims, which nothing confirmed, ever called for the case or call for it now.

    Such a case never evicts running work. If an operator approved its repair action, it no longer rests on claims.
    """
    if case.approved or case.approves(case.repair_action, case.attempts):
        return False
    needing = [one for one in state.active() if one.action.opens_case]
    if not needing:
        return case.claimed  # its claims ended: the node never had a proven fault
    return not any(one.action.opens_case for one in believed(state).active())


def without_claims(state: NodeState) -> NodeState:
    """Return the node without its claimed conditions, whose senders did not prove to be the node."""
    if not any(one.claimed for one in state.active()):
        return state
    return replace(state, conditions={key: one for key, one in state.conditions.items() if not one.claimed})


def _required(state: NodeState, policy: Policy) -> list[RepairAction]:
    return [one.repair_action for one in requirements(state, policy) if one.repair_action is not None]


def next_repair_action(rule: Rule, *, at_least: RepairAction) -> RepairAction | None:
    """Return the weakest permitted repair action that is at least as strong as `at_least`, or None."""
    return next((action for action in _ORDER[_ORDER.index(at_least) :] if action in rule.repair_actions), None)


def next_higher(repair_action: RepairAction) -> RepairAction | None:
    """Return the repair action that is one step stronger, or None for the strongest action."""
    following = _ORDER[_ORDER.index(repair_action) + 1 :]
    return following[0] if following else None
