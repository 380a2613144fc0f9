"""Exclusions: end an attempt whose node or cluster was excluded from repairs after its admission.

An exclusion is an update of the node's group by its owner, maintenance, an ignored node, or a cluster that no longer
acts. An attempt that only verifies its node continues.
"""

from __future__ import annotations

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.cluster.config import Mode
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.opt_out import opted_out_until
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult


def stop_for_update(context: StepContext) -> StepResult | None:
    """End the attempt if the node's group has an update hold; return None otherwise."""
    hold = context.rules.config.update_hold(context.state.placement.group, context.now)
    if hold is None or not context.case.repair_action.needs_slot:
        return None
    reason = f"an update of group {hold.group} began before the intent"
    return context.requeue(WaitingFor.UPDATE, reason, delay=False, counts=False)


def stop_if_excluded(context: StepContext) -> StepResult | None:
    """End the attempt if its cluster no longer acts or its node is excluded from repairs; return None otherwise."""
    reason = exclusion(context, context.state)
    if reason is None or not context.case.repair_action.needs_slot:
        return None
    return context.requeue(WaitingFor.PAUSE, f"{reason} before the intent", delay=False, counts=False)


def exclusion(context: StepContext, state: NodeState) -> str | None:
    """Return why no repair of the node may begin now, or None if neither its cluster nor the node is excluded."""
    config = context.rules.config
    if config.mode is not Mode.ACT or not config.opens_cases:
        return "the cluster was set to start no repairs"
    excluded = opted_out_until(state, config, context.now) is not None
    return "the node was excluded from repairs" if excluded else None
