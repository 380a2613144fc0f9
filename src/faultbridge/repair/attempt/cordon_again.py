"""Cordons a node again if its return to service has uncordoned it, or may have done so."""

from __future__ import annotations

from faultbridge.errors import Transient
from faultbridge.repair.attempt.step_context import StepContext


def cordon_again(context: StepContext) -> None:
    """Cordon the node again, to keep new work off it.

    Does nothing if the provider repairs the cluster or if the cluster has no orchestrator. Raises Transient if the
    orchestrator does not confirm the cordon, so that the step is tried again.
    """
    if context.rules.config.follows_provider or not context.orchestrator.applicable:
        return
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
