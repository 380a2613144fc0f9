"""Cordons a node again if its return to service has uncordoned it, or may have done so."""

from __future__ import annotations

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import Isolation
from faultbridge.errors import Transient
from faultbridge.repair.attempt.step_context import StepContext


def cordon_again(context: StepContext) -> StepContext:
    """Cordon the node again, to keep new work off it, and return the context after it.

    If the return to service was recorded, the cordon is stored as `requested` before the orchestrator is called. If the
    execution is lost then and the next one closes the case, the sweep withdraws the cordon.

    Does nothing if the provider repairs the cluster or if the cluster has no orchestrator. Raises Transient if the
    orchestrator does not confirm the cordon, so that the step is tried again.
    """
    if context.rules.config.follows_provider or not context.orchestrator.applicable:
        return context
    if context.state.isolation is Isolation.NONE:
        context = _with(context, Isolation.REQUESTED)
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
    return context if context.state.isolation is Isolation.CONFIRMED else _with(context, Isolation.CONFIRMED)


def _with(context: StepContext, isolation: Isolation) -> StepContext:
    return context.commit(lambda state, _: Transition(replace(state, isolation=isolation)))
