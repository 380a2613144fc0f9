"""The step CloseCase: returns the node to service, resolves its case and releases its slot, in one commit."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from faultbridge.decide.case_moves import move_case
from faultbridge.decide.governing_rules import start_probation
from faultbridge.model.cases import EXTERNAL, RELEASED, Case, Phase, Reason
from faultbridge.model.cluster.config import NO_VERIFIER
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, RepairAction, Resolution
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState, is_replaced
from faultbridge.model.values import replace
from faultbridge.repair.attempt.progress import live_attempt, move_node, stop_timers
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepOutcome, StepResult
from faultbridge.repair.attempt.verification_rules import faults_since_start
from faultbridge.repair.steps import return_to_service, verify_instance
from faultbridge.repair.successor import unused

NAME = "close"
RESOLUTIONS = {
    RepairAction.VERIFY: Resolution.RECOVERED,
    RepairAction.RESET_GPU: Resolution.REPAIRED,
    RepairAction.REBOOT_NODE: Resolution.REPAIRED,
    RepairAction.REPLACE_NODE: Resolution.REPLACED,
}
ON_PROBATION = frozenset(RESOLUTIONS.values())


class _FaultAfterVerification(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if a fault was observed on the node after its verification started."""


def close_case(context: StepContext) -> StepResult:
    """Resolve the case of a node that was verified and returned to service.

    If a fault was observed since the verification started, cordon the node again and fail the verification. If the node
    was not returned to service, escalate the case to an operator.
    """
    if context.attempt.steps.get(return_to_service.NAME) != StepOutcome.DONE:
        return context.escalate_to_operator("close was requested before the node returned to service")
    unused.end_for_case(context)
    try:
        context.commit(partial(_close, context), Actor.CLOSE)
    except _FaultAfterVerification:
        return _cordon_again(context)
    return StepResult(StepOutcome.DONE)


def _cordon_again(context: StepContext) -> StepResult:
    context = replace(context, state=context.tools.append.read(context.state.key))
    if context.rules.config.follows_provider:
        return verify_instance.revoke(context, faults_since_start(context.state))
    if context.orchestrator.applicable:
        context = return_to_service.cordon_again(context)
    else:
        context = context.commit(lambda state, _: Transition(replace(state, isolation=Isolation.NOT_APPLICABLE)))
    return verify_instance.revoke(context, faults_since_start(context.state))


def _close(context: StepContext, state: NodeState, now: datetime) -> Transition:
    case, attempt = live_attempt(state)
    if faults_since_start(state):
        raise _FaultAfterVerification
    degraded = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    target = NodeStatus.DEGRADED if degraded else NodeStatus.HEALTHY
    unverified = context.rules.config.verifier == NO_VERIFIER
    passed = "not verified: no diagnostics reach the node" if unverified else "verification passed"
    reason = f"{passed}, a condition remains" if degraded else passed
    present = mark_gone(_without_cordon(context, state, now), None)
    state, draft = move_node(replace(present, unverified=unverified), target, now, reason)
    resolution = _resolution(case, replaced=is_replaced(state))
    resolved = replace(
        case,
        status=CaseStatus.RESOLVED,
        resolution=resolution,
        attempt=stop_timers(attempt),
        waiting_for=None,
        because=Reason(),
        closed_at=now,
    )
    if resolution in ON_PROBATION and not case.before_service:
        family = context.tools.rulebook.catalog().row(case.code).family
        state = start_probation(state, resolved, family, context.rules.policy.limits, now)
    # A claim, or a fault whose record came too late to fail the verification, opens a case of its own. If an operator
    # canceled the repair of a fault, this fault opens none.
    uncovered = [one for one in state.active() if one.action.opens_case and (one.claimed or not case.cancelled)]
    if uncovered and state.case_deferred_until is None:
        state = replace(state, case_deferred_until=now)
    return move_case(Transition(state, (draft,)), resolved, now, resolution.value)


def _without_cordon(context: StepContext, state: NodeState, now: datetime) -> NodeState:
    """Return the node as not isolated; the sweep removes a cordon that a lost execution may have set."""
    if state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED} and context.orchestrator.applicable:
        return replace(state, isolation=Isolation.REQUESTED, isolation_since=state.isolation_since or now)
    return replace(state, isolation=Isolation.NONE)


def _resolution(case: Case, *, replaced: bool) -> Resolution:
    if case.cancelled:
        return Resolution.CANCELLED
    # If another controller replaced the instance, Faultbridge only verified it. If an earlier attempt released the old
    # instance, and another controller then terminated the successor, the release counts.
    attempt = case.attempt
    intent = attempt.intent if attempt else None
    replaced_by_us = intent is not None and intent.repair_action is RepairAction.REPLACE_NODE
    taken_over = attempt is not None and attempt.successor is not None and not replaced_by_us
    verified = case.repair_action is RepairAction.VERIFY
    if EXTERNAL in case.marks and RELEASED not in case.marks and (verified or taken_over):
        return Resolution.EXTERNAL
    if verified and Phase.INTENT.value in case.marks:  # an earlier attempt repaired what this one only verified
        return Resolution.REPLACED if replaced else Resolution.REPAIRED
    return RESOLUTIONS[case.repair_action]
