"""Attaches the volumes of a node to its current instance before the node returns to service.

The current instance is the successor, or the old instance if it was not replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.volumes import VOLUME_TAG, MovingVolume
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Volume
from faultbridge.ports.volumes import ATTACHED
from faultbridge.repair.attempt.progress import live_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult, waiting
from faultbridge.repair.volumes import escalation
from faultbridge.repair.volumes.zones import zone_refusal

NAME = "attach_volumes"


def attach_volumes(context: StepContext) -> tuple[StepContext, StepResult | None]:
    """Attach every volume that was detached for the node to the node's current instance.

    Returns the context with the node as last written, and the result of the step. The result is None if no volume is
    left to attach. Any other result means that the node may not serve yet: either the step waits for an attachment, or
    the case was escalated to an operator.
    """
    moving, instance_id = context.state.moving_volumes, context.instance_id
    if not moving or instance_id is None:
        return context, None
    found = {one.volume_id: one for one in context.volumes.read(one.volume_id for one in moving)}
    attached = {one.volume_id for one in moving if _is_attached(found, one, instance_id)}
    if attached:
        context = context.commit(lambda state, now: _record(state, now, attached, instance_id))
    left = context.state.moving_volumes
    lost = {one.volume_id for one in left if _is_lost(found.get(one.volume_id), instance_id)}
    if lost:
        reason = f"{', '.join(sorted(lost))} does not exist any more, or lost the tag {VOLUME_TAG}"
        return context, escalation.before_service(context, NAME, reason, lost)
    free = tuple(one for one in left if _is_free(found[one.volume_id], instance_id))
    refused = zone_refusal(context, free, instance_id) if free else None
    reasons = [] if refused else [_attach(context, one, found[one.volume_id], instance_id) for one in left]
    refused = next((reason for reason, final in reasons if final), refused)
    if refused is not None:
        return context, escalation.before_service(context, NAME, refused)
    return context, waiting("; ".join(reason for reason, _ in reasons)) if reasons else None


def _attach(context: StepContext, moving: MovingVolume, volume: Volume, instance_id: str) -> tuple[str, bool]:
    """Start to attach a volume to an instance, unless this or another instance already uses it.

    Returns two values. The first is why the volume is not attached yet; it is never empty, because attaching takes
    time. The second is True if another try cannot succeed.
    """
    name = moving.volume_id
    if volume.on(instance_id):
        return f"{name} is not attached to {instance_id} yet", False
    if not _is_free(volume, instance_id):
        return f"{name} is attached to {', '.join(one.instance_id for one in volume.attachments)}", False
    answer = context.volumes.attach(name, instance_id, moving.device)
    final = answer.failure is not None and not answer.failure.retriable
    return answer.reason or f"{name} is not attached to {instance_id} yet", final


def _is_free(volume: Volume, instance_id: str) -> bool:
    return not volume.on(instance_id) and (volume.shared or not volume.attachments)


def _is_lost(volume: Volume | None, instance_id: str) -> bool:
    return volume is None or not (volume.tagged or volume.on(instance_id))


def _is_attached(found: Mapping[str, Volume], moving: MovingVolume, instance_id: str) -> bool:
    volume = found.get(moving.volume_id)
    attachment = volume.on(instance_id) if volume else None
    return attachment is not None and attachment.state == ATTACHED


def _record(state: NodeState, now: datetime, attached: Collection[str], instance_id: str) -> Transition:
    done = tuple(one for one in state.moving_volumes if one.volume_id in attached)
    if not done:
        return Transition(state)
    case, _ = live_attempt(state)
    step = entry_builder.step(
        case,
        NAME,
        "attached",
        now,
        old_instance=done[0].instance_id,
        new_instance=instance_id,
        facts={"volumes": escalation.described(done)},
    )
    return Transition(escalation.without(state, attached), (step,))
