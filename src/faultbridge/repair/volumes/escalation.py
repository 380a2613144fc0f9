"""Escalates a case if its volumes cannot move, and describes volumes in entries."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.volumes import MovingVolume
from faultbridge.domain.copies import replace
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.repair.attempt.failed_attempts import escalate_case
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepOutcome, StepResult


def before_intent(context: StepContext, step: str, outcome: str, reason: str, gone: Collection[str] = ()) -> StepResult:
    """Escalate the case before the intent, because a volume cannot move. The old instance is kept.

    An entry records `step` (the name of the repair step), `outcome` (its result, such as `refused`) and `reason`.
    Volumes in `gone` no longer exist, so they are removed from the record of moving volumes.
    """
    draft = _step(context, step, outcome, reason, old=context.instance_id)
    return _escalate(context, reason, draft, gone, fails=True)


def before_service(context: StepContext, step: str, reason: str, lost: Collection[str] = ()) -> StepResult:
    """Escalate the case before the node returns to service, because a volume is not attached.

    The node stays out of service. An entry records `step` (the name of the failed repair step) and `reason`.
    Volumes in `lost` can no longer be attached. They are removed from the record of moving volumes, so that an operator
    can return the node.
    """
    draft = _step(context, step, "failed", reason, new=context.instance_id)
    return _escalate(context, reason, draft, lost, fails=False)


def described(volumes: tuple[MovingVolume, ...]) -> list[dict[str, Any]]:
    """Return volumes in the form that an entry records."""
    return [
        {"volume": one.volume_id, "zone": one.zone, "device": one.device, "from": one.instance_id} for one in volumes
    ]


def without(state: NodeState, volumes: Collection[str]) -> NodeState:
    """Return the node without the given volumes in its record of moving volumes."""
    left = tuple(one for one in state.moving_volumes if one.volume_id not in volumes)
    return replace(state, moving_volumes=left)


def _step(
    context: StepContext, step: str, outcome: str, reason: str, *, old: str | None = None, new: str | None = None
) -> Draft:
    return entry_builder.step(
        context.case,
        step,
        outcome,
        context.now,
        reason=reason,
        failure="PROVIDER_ERROR",
        old_instance=old,
        new_instance=new,
        facts={"volumes": described(context.state.moving_volumes)},
    )


def _escalate(
    context: StepContext, reason: str, draft: Draft, forgotten: Collection[str], *, fails: bool
) -> StepResult:
    text = f"VOLUMES: {reason}"

    def revise(state: NodeState, now: datetime) -> Transition:
        escalated = escalate_case(state, now, text, drafts=(draft,), fails=fails)
        return replace(escalated, state=without(escalated.state, forgotten))

    context.commit(revise)
    context.log("attempt_escalated", text)
    return StepResult(StepOutcome.FAILED, text)
