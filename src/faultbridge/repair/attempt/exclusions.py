"""Exclusions: end an attempt whose node or cluster was excluded from repairs after its admission.

A node is excluded while

- the owner of its group updates the group (update hold),
- its cluster is under maintenance, or the mode or the repair owner of the cluster permits no repair,
- the node is ignored.

An attempt that only verifies its node continues.
"""

from __future__ import annotations

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.opt_out import exclusion_reason
from faultbridge.pipeline.decide.required_order import permission_order
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult


def stop_for_update(context: StepContext) -> StepResult | None:
    """End the attempt if the node's group has an update hold; return None otherwise.

    An attempt that only verifies its node continues.
    """
    hold = context.rules.config.update_hold(context.state.placement.group, context.now)
    if hold is None or not context.case.repair_action.needs_slot:
        return None
    reason = f"an update of group {hold.group} began before the intent"
    return context.requeue(WaitingFor.UPDATE, reason, delay=False, counts=False)


def stop_if_excluded(context: StepContext) -> StepResult | None:
    """End the attempt and queue its case again if the node or cluster is excluded from repairs.

    Returns None if it is not excluded, or if the attempt only verifies the node. Update holds are not checked here.
    """
    reason = exclusion(context, context.state)
    if reason is None or not context.case.repair_action.needs_slot:
        return None
    return context.requeue(WaitingFor.PAUSE, reason, delay=False, counts=False)


def exclusion(context: StepContext, state: NodeState) -> str | None:
    """Return why the node is excluded from repairs now, or None if it is not excluded.

    Update holds are not considered here; `stop_for_update` checks them.
    """
    config = context.rules.config
    forbidden = permission_order(config)
    return forbidden.reason if forbidden else exclusion_reason(state, config, context.now)
