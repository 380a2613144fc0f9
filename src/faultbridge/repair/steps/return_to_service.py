"""The step ReturnToService: uncordons a node whose verification passed."""

from __future__ import annotations

from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.model.cases import Phase, Reason
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Isolation, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair import volumes
from faultbridge.repair.attempt.progress import escalate_case
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepOutcome, StepResult, waiting
from faultbridge.repair.attempt.verification_rules import faults_since_start
from faultbridge.repair.isolation import confirm_cordon, end_backoff
from faultbridge.repair.steps import verify_instance

NAME = "return_to_service"


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
    if context.rules.config.follows_provider:
        return _finish_returned(context, "not_applicable", "the provider returns the node to service")
    orchestrator = context.orchestrator
    if not orchestrator.applicable:
        return _finish_returned(context, "not_applicable", "the cluster has no orchestrator")
    answer = orchestrator.uncordon(context.member)
    if answer.ok:
        return _finish_returned(context, "returned", answer.reason)
    return waiting(f"{answer.failure.value if answer.failure else ''}: {answer.reason}")


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """Escalate the case after the deadline: the verified node is still cordoned or lacks its volumes."""
    if context.state.moving_volumes:
        return volumes.before_service(context, volumes.ATTACH_NAME, reason)
    late = Reason(f"verified, but the orchestrator does not uncordon the node: {reason}", ProviderFailure.TIMEOUT)

    def revise(state: NodeState, now: datetime) -> Transition:
        draft = entry_builder.step(context.case, NAME, "timed_out", now, reason=reason, failure=ProviderFailure.TIMEOUT)
        unconfirmed = replace(state, isolation=Isolation.REQUESTED)
        return escalate_case(unconfirmed, now, late, drafts=(draft,), fails=False)

    context.commit(revise)
    context.log("attempt_escalated", str(late))
    return StepResult(StepOutcome.FAILED, str(late))


def _finish_returned(context: StepContext, outcome: str, reason: str) -> StepResult:
    def finished(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(context.case, NAME, outcome, now, reason=reason, new_instance=context.instance_id)
        returned, drafts = end_backoff(replace(state, isolation=Isolation.NONE), now)
        return Transition(returned, (*drafts, step))

    return context.finish(StepOutcome.DONE, Phase.CLOSING, finished)


def cordon_again(context: StepContext) -> StepContext:
    """Cordon the node again, after storing the request; raises Transient without a confirmation."""
    if context.rules.config.follows_provider or not context.orchestrator.applicable:
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
