"""The last steps: ReturnToService uncordons a verified node, CloseCase resolves its case, RecordFailure ends it.

CloseCase returns the node to service, resolves the case and releases its slot in one commit.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial

from faultbridge.decide.case_moves import move_case
from faultbridge.decide.governing_rules import start_probation
from faultbridge.model.cases import EXTERNAL, RELEASED, Case, Phase, Reason
from faultbridge.model.cluster.config import NO_VERIFIER
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.entries import Transition
from faultbridge.model.enums import (
    Actor,
    CaseStatus,
    Isolation,
    NodeStatus,
    ProviderFailure,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeState, is_replaced
from faultbridge.model.values import replace
from faultbridge.repair import volumes
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    live_attempt,
    move_node,
    stop_timers,
    waiting,
)
from faultbridge.repair.isolate import confirm_cordon, end_backoff
from faultbridge.repair.steps import verify_instance
from faultbridge.repair.steps.verify_instance import faults_since_start
from faultbridge.repair.successor import launch

RETURN = "return_to_service"


def return_to_service(context: StepContext) -> StepResult:
    """Attach the node's volumes and uncordon it; a new fault fails the verification instead."""
    if context.attempt.steps.get(verify_instance.NAME) != StepOutcome.DONE:
        return context.escalate_to_operator("return to service was requested without a passed verification")
    faults = faults_since_start(context.state)
    if faults:
        return verify_instance.revoke(cordon_again(context), faults)
    context, missing = volumes.attach_volumes(context)
    return missing or _uncordon(context)


def _uncordon(context: StepContext) -> StepResult:
    if context.rules.config.provider_isolates:
        return _finish_returned(context, "not_applicable", "the provider returns the node to service")
    orchestrator = context.orchestrator
    if not orchestrator.applicable:
        return _finish_returned(context, "not_applicable", "the cluster has no orchestrator")
    answer = orchestrator.uncordon(context.member)
    if answer.ok:
        return _finish_returned(context, "returned", answer.reason)
    return waiting(f"{answer.failure.value if answer.failure else ''}: {answer.reason}")


def on_return_timeout(context: StepContext, reason: str) -> StepResult:
    """Escalate the case after the deadline: the verified node is still cordoned or lacks its volumes."""
    if context.state.moving_volumes:
        return volumes.before_service(context, reason)
    late = Reason(f"verified, but the orchestrator does not uncordon the node: {reason}", ProviderFailure.TIMEOUT)
    draft = context.entry("timed_out", reason=reason, failure=late.failure)
    return context.escalate_to_operator(
        late, draft, fails=False, change=lambda state: replace(state, isolation=Isolation.REQUESTED)
    )


def _finish_returned(context: StepContext, outcome: str, reason: str) -> StepResult:
    def finished(state: NodeState, now: datetime) -> Transition:
        step = context.entry(outcome, now, reason=reason, new_instance=context.instance_id)
        returned, drafts = end_backoff(replace(state, isolation=Isolation.NONE), now)
        return Transition(returned, (*drafts, step))

    return context.finish(StepOutcome.DONE, Phase.CLOSING, finished)


def cordon_again(context: StepContext) -> StepContext:
    """Cordon the node again, after storing the request; raises Transient without a confirmation."""
    if context.rules.config.provider_isolates or not context.orchestrator.applicable:
        return context
    if context.state.isolation is not Isolation.REQUESTED:
        context = context.commit(request_cordon)
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
    return context.commit(confirm_cordon)


def request_cordon(state: NodeState, now: datetime) -> Transition:
    """Store the request before the call, so that a cordon whose answer is lost is withdrawn one day."""
    return Transition(replace(state, isolation=Isolation.REQUESTED, isolation_since=now))


CLOSE = "close"
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
    if context.attempt.steps.get(RETURN) != StepOutcome.DONE:
        return context.escalate_to_operator("close was requested before the node returned to service")
    launch.end_launches_of_case(context)
    try:
        context.commit(partial(_close, context), Actor.CLOSE)
    except _FaultAfterVerification:
        return _fail_after_return(context)
    return StepResult(StepOutcome.DONE)


def _fail_after_return(context: StepContext) -> StepResult:
    context = replace(context, state=context.tools.append.read(context.state.key))
    if context.rules.config.provider_isolates or context.orchestrator.applicable:
        context = cordon_again(context)
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
    # canceled the repair of a fault, this fault opens none, but one of an instance that came afterwards does.
    decided = case.cancelled and EXTERNAL not in case.marks
    uncovered = [one for one in state.active() if one.action.opens_case and (one.claimed or not decided)]
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


FAIL = "fail"


def record_failure(context: StepContext) -> StepResult:
    """End the failed attempt, and retry the case later or escalate it to an operator.

    The case is retried if the attempt has no intent (the point of no return), and if the policy permits another
    attempt. It is not retried while the result of a launch is unknown, because the next attempt has another token and
    could launch a second instance. If the failed step is ReturnToService, the node is first cordoned again.
    """
    if context.attempt.step == RETURN:
        context = cordon_again(context)
    reason = context.request.error or "the step failed without an error message"
    step = context.attempt.step or "admission"
    draft = context.entry("error", step=step, reason=reason)
    text = f"{step} failed: {reason}"
    context.log("attempt_failed", text, logging.ERROR)
    attempt = context.attempt
    launched = attempt.launch_token is not None and attempt.successor is None
    if attempt.intent is None and not launched:
        return context.retry_or_escalate(WaitingFor.WAIT, text, draft)
    return context.escalate_to_operator(text, draft)
