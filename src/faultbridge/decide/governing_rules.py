"""Governing rules: the policy rules that decide whether a repair action of a case may start.

A case stores the rule of one condition. Each other active condition that requires the repair action, or a stronger one,
has a rule of its own, whose approvals and maintenance windows apply too. The rules of earlier attempts apply as well,
because a reboot can end a condition although the node may still fail its verification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from faultbridge.decide.fold.claims import is_unproven
from faultbridge.model.cases import Case
from faultbridge.model.catalog import Scope
from faultbridge.model.conditions import Condition, code_of, source_of
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import NodeState, Probation
from faultbridge.model.policy import DEFAULT_RULE, INVENTORY_RULE, Limits, OrchestratorUnreachable, Policy, Rule
from faultbridge.model.values import replace

_ORDER = list(RepairAction)
_WITHOUT_POLICY = frozenset({DEFAULT_RULE.name, INVENTORY_RULE})


class Requirement(Struct, frozen=True):
    """An active condition that needs a case, its rule, and the rule's repair action, or None if it permits none."""

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
    """Return the strongest requirement if it needs `action` or a stronger one, else None."""
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
    condition = state.conditions.get(case.condition_key)
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
    has_ended = all(one.condition.key != case.condition_key for one in found)
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
    fault = Condition(
        case.code, case.component, case.severity, case.action, Scope.INSTANCE, (), begun, begun, "", mode=case.mode
    )
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


_NOTHING = _ORDER.index(RepairAction.VERIFY)
"""The index in `_ORDER` of `verify`, the repair action that changes nothing."""


class Choice(NamedTuple):
    """The chosen repair action, or None if an operator must act, and why it is not the requested one."""

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
    """Return the strongest action that the case or a confirmed active condition requires."""
    return max((case.repair_action, *_required(believed(state), policy)), key=_ORDER.index)


def unconfirmed(state: NodeState, case: Case, policy: Policy) -> bool:
    """Return whether only unconfirmed claims require the next action; a failed verification confirms a claim."""
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


MAX_PROBATIONS = 8
"""Maximum probations of a node; the oldest is dropped first."""


class Response(NamedTuple):
    """The action for a condition (None: an operator must act), and the probation if it is a relapse."""

    repair_action: RepairAction | None
    probation: Probation | None = None

    @property
    def text(self) -> str:
        """Return a phrase that names the repair after which the fault came back; empty without a relapse."""
        if self.probation is None:
            return ""
        return f"relapse after {self.probation.repair_action.value} of case {self.probation.case_id}"


def respond(state: NodeState, condition: Condition, rule: Rule, now: datetime) -> Response:
    """Return the repair action for a condition; after a relapse, stronger than that of the last repair.

    Diagnostics change nothing, so they need no stronger action. An operator must act if the rule permits none, and
    after a replacement, because the cause is probably outside of the instance.
    """
    required = rule.repair_action(condition.action)
    instance = state.incarnation.instance if state.incarnation else None
    probation = _find_relapse(state.probations, condition, instance, now)
    if probation is None or required is None or not probation.repair_action.needs_slot:
        return Response(required, probation)
    stronger = next_higher(probation.repair_action)
    if stronger is None:
        return Response(None, probation)
    sufficient = _ORDER[max(_ORDER.index(stronger), _ORDER.index(required)) :]
    return Response(next((one for one in sufficient if one in rule.repair_actions), None), probation)


def start_probation(state: NodeState, case: Case, family: Family | None, limits: Limits, now: datetime) -> NodeState:
    """Put the node on probation for a verified repair, if it has an instance and the policy a probation."""
    if state.incarnation is None or not limits.probation:
        return state
    until, instance = now + limits.probation, state.incarnation.instance
    return replace(state, probations=_begin_probation(state.probations, case, family, instance, until, now))


def _begin_probation(
    probations: Iterable[Probation], case: Case, family: Family | None, instance: int, until: datetime, now: datetime
) -> tuple[Probation, ...]:
    running = [one for one in probations if one.instance == instance and one.until > now and one.mode != case.mode]
    begun = Probation(case.id, case.code, case.component, case.repair_action, instance, until, family, mode=case.mode)
    return (*running, begun)[-MAX_PROBATIONS:]


def _find_relapse(
    probations: Iterable[Probation], condition: Condition, instance: int | None, now: datetime
) -> Probation | None:
    found = [one for one in probations if one.instance == instance and now < one.until and one.is_relapse(condition)]
    return max(found, key=lambda one: _ORDER.index(one.repair_action), default=None)


# Unreachable orchestrator: whether a repair may proceed without the node's orchestrator.
#
# The repair waits, unless all of these are true:
#
# - The orchestrator has been unreachable for the policy's `orchestrator_timeout`.
# - The policy rule of the case permits the repair to proceed.
# - EC2 reports that the instance is gone or impaired. Reports of the node itself, or about its GPUs, are not
#   sufficient: its jobs may still run.

PROOFS: Mapping[str, frozenset[str]] = {
    "cloud.instance_gone": frozenset({"ec2-event"}),
    "cloud.system_impaired": frozenset({"ec2-status"}),
}
"""The conditions that prove an instance unusable, and the reporters that are accepted for each."""


def proof_of_failure(state: NodeState) -> str | None:
    """Return a text that states which report proves the instance unusable, or None without proof."""
    for condition in state.active():
        active = [key for key, one in condition.reporters.items() if one.active and not one.claimed]
        proofs = sorted(key for key in active if source_of(key) in PROOFS.get(code_of(key), ()))
        if proofs and condition.known_incarnation:
            return f"{source_of(proofs[0])} reports {code_of(proofs[0])}: the instance is unusable"
    return None


def orchestrator_timed_out(state: NodeState, policy: Policy, now: datetime) -> bool:
    """Return whether the orchestrator has been unreachable for the policy's `orchestrator_timeout`."""
    since = state.orchestrator_lost_at
    return since is not None and now >= since + policy.limits.orchestrator_timeout


def reason_to_proceed(state: NodeState, policy: Policy, now: datetime) -> str | None:
    """Return why a repair may proceed without the orchestrator, or None if it must wait."""
    case = state.live_case
    if case is None or not orchestrator_timed_out(state, policy, now):
        return None
    if rule_of_case(state, case, policy).orchestrator_unreachable is not OrchestratorUnreachable.PROCEED:
        return None
    proof = proof_of_failure(state)
    return f"the orchestrator is unreachable, and {proof}" if proof else None
