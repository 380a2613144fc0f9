"""Governing rules: the policy rules that decide whether a repair action of a case may start.

A case stores the rule of one condition. Each other active condition that requires the repair action, or a stronger one,
has a rule of its own, whose approvals and maintenance windows apply too. The rules of earlier attempts apply as well,
because a reboot can end a condition although the node may still fail its verification.
"""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.catalog import Scope
from faultbridge.domain.conditions import Condition, condition_key
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import DEFAULT_RULE, INVENTORY_RULE, Policy, Rule

_ORDER = list(RepairAction)
_WITHOUT_POLICY = frozenset({DEFAULT_RULE.name, INVENTORY_RULE})


@dataclass(frozen=True, slots=True)
class Requirement:
    """An active condition that needs a case, its policy rule, and the repair action of the rule.

    The repair action is None if the rule permits none for this condition.
    """

    condition: Condition
    rule: Rule
    repair_action: RepairAction | None


def requirements(state: NodeState, policy: Policy) -> tuple[Requirement, ...]:
    """Return a `Requirement` for each active condition of the current instance that needs a case."""
    found = []
    for condition in state.active():
        if condition.action.opens_case and condition.known_incarnation:
            rule = policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
            found.append(Requirement(condition, rule, rule.repair_action(condition.action)))
    return tuple(found)


def strongest_requirement(state: NodeState, policy: Policy) -> Requirement | None:
    """Return the requirement with the strongest repair action, or None if there is none.

    Of equally strong requirements, those whose rule is no dry run are preferred, then the most severe condition.
    """
    found = (one for one in requirements(state, policy) if one.repair_action is not None)
    return max(found, key=_strength, default=None)


def requirement_for(state: NodeState, policy: Policy, action: RepairAction) -> Requirement | None:
    """Return the strongest requirement of the node if its repair action is `action` or a stronger one.

    If the strongest requirement has a weaker repair action, or there is no requirement, the result is None.
    """
    found = strongest_requirement(state, policy)
    enough = found is not None and _strength(found)[0] >= _ORDER.index(action)
    return found if enough else None


def _strength(one: Requirement) -> tuple[int, bool, int]:
    order = -1 if one.repair_action is None else _ORDER.index(one.repair_action)
    return order, not one.rule.dry_run, one.condition.severity.rank


def rule_of_case(state: NodeState, case: Case, policy: Policy) -> Rule:
    """Return the policy rule that applies to a case.

    The case stores the name of its rule. If neither the current policy nor Faultbridge itself has a rule of this name,
    the first of these rules that exists is returned:

    - the rule of the active condition that requires the strongest repair action,
    - the rule of the condition that opened the case, if the node still has it,
    - a rule that requires approval of each repair, because what the former rule required is unknown.
    """
    if _is_known(case.rule, policy):
        return policy.rule_named(case.rule)
    strongest = strongest_requirement(state, policy)
    if strongest is not None:
        return strongest.rule
    condition = state.conditions.get(condition_key(case.code, case.component))
    if condition is not None:
        return policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
    return _asking_rule(case.rule)


def _is_known(rule: str, policy: Policy) -> bool:
    return rule in _WITHOUT_POLICY or policy.has_rule(rule)


def _asking_rule(name: str) -> Rule:
    return Rule(name, approval=tuple(action for action in RepairAction if action.needs_slot))


def governing_rules(state: NodeState, case: Case, policy: Policy, action: RepairAction) -> tuple[Rule, ...]:
    """Return the rules whose approvals and maintenance windows apply to this repair action of the case.

    These are:

    - the rule of the case,
    - the rules of the conditions that require this repair action or a stronger one. If no condition requires it, for
      example after a failed attempt with a weaker action, the rules of all conditions that need a case are used,
    - if the policy changed since the case was opened and the fault that opened it has ended: the rules that this policy
      may have for that fault,
    - the rules of earlier attempts, even if their conditions have ended.
    """
    found = requirements(state, policy)
    least = _ORDER.index(action)
    requiring = [
        one.rule for one in found if one.repair_action is not None and _ORDER.index(one.repair_action) >= least
    ]
    former = [policy.rule_named(one) if _is_known(one, policy) else _asking_rule(one) for one in case.governed_by]
    active = requiring or [one.rule for one in found]
    has_ended = all((one.condition.code, one.condition.component) != (case.code, case.component) for one in found)
    changed = _rules_of_ended_fault(state, case, policy) if has_ended and case.policy != policy.version else ()
    rules = (rule_of_case(state, case, policy), *active, *changed, *former)
    return tuple({rule.name: rule for rule in rules}.values())


def _rules_of_ended_fault(state: NodeState, case: Case, policy: Policy) -> Iterator[Rule]:
    """Yield the rules that a changed policy may have for the ended fault that opened a case.

    The reported severity, action, sources and count of the fault are not stored in the case, so they are not compared.
    A rule that requires one of these values is yielded, because it may match. The last rule that is yielded is the
    first one that requires none of them, or that has the name of the case's rule. A case that was opened because an
    instance was added has no such rules.
    """
    if case.rule == INVENTORY_RULE:
        return
    begun, placement = case.opened_at, state.placement
    fault = Condition(case.code, case.component, case.severity, case.action, Scope.INSTANCE, (), begun, begun, "")
    for rule in policy.rules:
        stored = replace(rule.match, severities=(), actions=(), sources=(), count=1)
        if stored.covers(fault, state.key.cluster, placement.instance_type):
            yield rule
            if rule.name == case.rule or rule.match == stored:
                return


def with_governing_rules(state: NodeState, case: Case, policy: Policy) -> Case:
    """Return the case with the names of the rules that currently govern its repair action."""
    rules = governing_rules(state, case, policy, case.repair_action)
    return replace(case, governed_by=tuple(rule.name for rule in rules))


def rule_to_ask(state: NodeState, case: Case, policy: Policy, action: RepairAction, attempt: int) -> Rule | None:
    """Return a rule that still requires an approval of this attempt's repair action, or None."""
    if case.approves(action, attempt):
        return None
    return next((rule for rule in governing_rules(state, case, policy, action) if action in rule.approval), None)


def with_requirement(case: Case, requirement: Requirement) -> Case:
    """Return the case with the rule and action of a requirement, and with the worse severity of both."""
    condition = requirement.condition
    return replace(
        case,
        rule=requirement.rule.name,
        severity=max(case.severity, condition.severity, key=lambda severity: severity.rank),
        action=condition.action,
    )
