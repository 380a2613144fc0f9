"""Cordon again: keeps work off a node that a return to service has uncordoned, or may have uncordoned."""

from __future__ import annotations

from faultbridge.errors import Transient
from faultbridge.repair.attempt.step_context import StepContext


def cordon_again(context: StepContext) -> None:
    """Cordon the node, unless the provider repairs its cluster or the cluster has no orchestrator.

    Raises Transient when the orchestrator does not confirm it, so that the step is tried again.
    """
    if context.rules.config.follows_provider or not context.orchestrator.applicable:
        return
    answer = context.orchestrator.cordon(context.member)
    if not answer.ok:
        raise Transient(f"the node may be uncordoned and cannot be cordoned again: {answer.reason}")
