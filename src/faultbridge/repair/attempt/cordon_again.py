"""Cordons a node again if its return to service has uncordoned it, or may have done so."""

from __future__ import annotations

from datetime import datetime

from faultbridge.model.copies import replace
from faultbridge.model.entries import Transition
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import Isolation, NodeState
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.isolation import confirm_cordon


def cordon_again(context: StepContext) -> StepContext:
    """Cordon the node again, after storing the request; raises Transient without a confirmation."""
    if context.rules.config.follows_provider or not context.orchestrator.applicable:
        return context
    if context.state.isolation is not Isolation.REQUESTED:
        context = context.commit(_request)
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
    return context.commit(confirm_cordon)


def _request(state: NodeState, now: datetime) -> Transition:
    return Transition(replace(state, isolation=Isolation.REQUESTED, isolation_since=now))
