"""Raising: a fault that joins a live case may ask for more than the case was opened for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.conditions import Condition
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline import entry_builder

WAITING = frozenset({CaseStatus.OPEN, CaseStatus.QUEUED})


def escalate(
    state: NodeState, joined: Iterable[Condition], policy: Policy, now: datetime
) -> tuple[NodeState, tuple[Draft, ...]]:
    """Raise the repair action of a case that waits to what the worst of the conditions that joined it asks for.

    An attempt under way is left alone: it looks at the conditions itself before its intent and after its verification.
    """
    case = state.live_case
    if case is None or case.status not in WAITING or case.cancelled:
        return state, ()
    found = [
        (repair_action, rule, one)
        for one in joined
        for rule in [_rule(one, state, policy)]
        if (repair_action := _repair_action(one, rule))
    ]
    if not found:
        return state, ()
    order = list(RepairAction)
    repair_action, rule, cause = max(found, key=lambda one: order.index(one[0]))
    if order.index(repair_action) <= order.index(case.repair_action):
        return state, ()
    return replace(state, case=_with(case, repair_action, rule, cause)), _told(
        case, repair_action, rule, cause, policy, now
    )


def _rule(one: Condition, state: NodeState, policy: Policy) -> Rule:
    return policy.rule_for(one, state.key.cluster, state.placement.instance_type)


def _repair_action(one: Condition, rule: Rule) -> RepairAction | None:
    return rule.repair_action(one.action) if one.action.opens_case and one.known_incarnation else None


def _with(case: Case, repair_action: RepairAction, rule: Rule, cause: Condition) -> Case:
    worst = max(case.severity, cause.severity, key=lambda one: one.rank)
    # What a person said of the milder repair action says nothing of this one.
    return replace(
        case, repair_action=repair_action, rule=rule.name, severity=worst, action=cause.action, approval=None
    )


def _told(
    case: Case, repair_action: RepairAction, rule: Rule, cause: Condition, policy: Policy, now: datetime
) -> tuple[Draft, ...]:
    text = f"{cause.code} joined the case: {repair_action.value} instead of {case.repair_action.value}"
    facts = {
        "repair_action": repair_action.value,
        "repair_action_before": case.repair_action.value,
        "rule": rule.name,
        "policy": policy.version,
    }
    told = (entry_builder.note(kind="information", text=text, at=now, case_id=case.id, facts=facts),)
    if case.asking is None:
        return told
    over = "the question is over: more is needed than was asked about"
    return (*told, entry_builder.note(kind="approval", text=over, at=now, case_id=case.id, stage="over"))
