"""Escalation: raise the repair action of a waiting case, or isolate its node, if a new fault requires it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.case_moves import drop_approval
from faultbridge.pipeline.decide.governing_rules import Requirement, with_requirement
from faultbridge.pipeline.decide.relapse import Response, respond

WAITING = frozenset({CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.ABSORBED})


def raise_isolation(state: NodeState, joined: Iterable[Condition], policy: Policy) -> NodeState:
    """Set `isolate` of the node's live case if a condition in `joined` requires it, whatever opened the case."""
    case = state.live_case
    if case is None or case.isolate or case.cancelled:
        return state
    rules = ((one, policy.rule_for(one, state.key.cluster, state.placement.instance_type)) for one in joined)
    required = any(rule.isolates(condition.severity) for condition, rule in rules)
    return replace(state, case=replace(case, isolate=True)) if required else state


def raise_repair_action(
    state: NodeState, joined: Iterable[Condition], policy: Policy, now: datetime
) -> tuple[NodeState, tuple[Draft, ...]]:
    """Raise the repair action of a waiting case if a condition in `joined` needs a stronger action.

    A running attempt is not changed. The attempt reads the conditions itself, before its intent (the point of no
    return) and after its verification.
    """
    case = state.live_case
    if case is None or case.status not in WAITING or case.cancelled:
        return state, ()
    required = [
        (response.repair_action, response, rule, condition)
        for condition in joined
        for rule in [policy.rule_for(condition, state.key.cluster, state.placement.instance_type)]
        if (response := _response(state, condition, rule, now)).repair_action
    ]
    if not required:
        return state, ()
    order = list(RepairAction)
    repair_action, response, rule, condition = max(required, key=lambda requirement: order.index(requirement[0]))
    if order.index(repair_action) <= order.index(case.repair_action):
        return state, ()
    # An approval covers only the repair action that it was requested for.
    text = f"Approval of {case.repair_action.value} no longer required: the case now needs {repair_action.value}."
    unapproved, approval_over = drop_approval(case, now, text)
    raised = replace(
        with_requirement(unapproved, Requirement(condition, rule, repair_action)),
        repair_action=repair_action,
        relapse_of=response.probation.case_id if response.probation else case.relapse_of,
    )
    return replace(state, case=raised), (_note(case, raised, condition, policy, now), *approval_over)


def _response(state: NodeState, condition: Condition, rule: Rule, now: datetime) -> Response:
    needs_case = condition.action.opens_case and condition.known_incarnation
    return respond(state, condition, rule, now) if needs_case else Response(None)


def _note(before: Case, raised: Case, condition: Condition, policy: Policy, now: datetime) -> Draft:
    new, old = raised.repair_action.value, before.repair_action.value
    text = f"{condition.code} joined the case: {new} replaces {old}"
    facts = {
        "repair_action": new,
        "repair_action_before": old,
        "rule": raised.rule,
        "policy": policy.version,
    }
    return entry_builder.note(kind="information", text=text, at=now, case_id=before.id, facts=facts)
