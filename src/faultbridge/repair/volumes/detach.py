"""Detaches the volumes that the policy names from an instance, before the instance is released."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.volumes import VOLUME_TAG, MovingVolume
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Volume
from faultbridge.ports.volumes import DETACHING
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepOutcome, StepResult, waiting
from faultbridge.repair.volumes import escalation, zones

NAME = "detach_volumes"


def detach_volumes(context: StepContext, instance_id: str, spare: str | None) -> tuple[StepContext, StepResult | None]:
    """Detach the volumes of the old instance that must move to the next instance of the node.

    Returns the context with the node as last written, and the result of the step. The result is None if no volume that
    must move is attached to the instance any more. Any other result means that the instance must not be released:
    either the step waits, or the case was escalated to an operator.

    `spare` is the id of the spare that becomes the successor, or None.
    """
    if not context.moves_volumes:
        return context, None
    left = _held_by_driver(context)
    if left:
        return context, waiting(f"the storage driver has not detached {', '.join(left)}")
    found = context.volumes.attached(instance_id, context.rules.policy.volumes)
    new = _not_recorded(context.state, tuple(_moving(one, instance_id) for one in found))
    refusal = zones.refusal(context, _with(context.state, new), spare)
    if refusal is not None:
        return context, escalation.before_intent(context, NAME, "refused", refusal)
    if new:
        context = context.commit(lambda state, now: _record(state, now, new))
    return _detach(context, instance_id)


def refuse_unmovable(context: StepContext) -> StepResult | None:
    """Escalate the case if volumes must move, but no adapter can move volumes of the provider's instances.

    Returns the result of the step, or None if the repair may continue.
    """
    if not context.moves_volumes or not context.lacks_volumes:
        return None
    name = context.rules.config.provider
    reason = (
        f"the policy names volumes, but provider {name!r} cannot move any; remove `volumes` from the policy of "
        f"{context.rules.config.cluster}, or install an extension with the part {name!r} of faultbridge.volumes"
    )
    return escalation.before_intent(context, NAME, "refused", reason)


def waits_for_volumes(context: StepContext) -> bool:
    """Return whether volumes that must move are still attached to the instance of the node.

    If the volumes cannot be read, the result is True if the node's state records any moving volume.
    """
    if not context.moves_volumes or context.lacks_volumes:
        return False
    moving = [one.volume_id for one in context.state.moving_volumes]
    try:
        left = any(one.on(str(context.instance_id)) for one in context.volumes.read(moving))
        return left or bool(_held_by_driver(context))
    except Transient as error:
        context.log("volumes_not_read", str(error))
        return bool(moving)


def _held_by_driver(context: StepContext) -> tuple[str, ...]:
    """Return the volumes that the orchestrator's storage driver has not detached from the node.

    The result is empty if Faultbridge has no adapter for a storage driver of this orchestrator.
    """
    attachments = context.tools.volume_attachments.get(context.rules.config.orchestrator)
    return attachments.remaining(context.member) if attachments else ()


def _detach(context: StepContext, instance_id: str) -> tuple[StepContext, StepResult | None]:
    moving = context.state.moving_volumes
    found = context.volumes.read(one.volume_id for one in moving)
    gone = {one.volume_id for one in moving} - {one.volume_id for one in found}
    if gone:
        reason = f"{', '.join(sorted(gone))} does not exist any more"
        return context, escalation.before_intent(context, NAME, "refused", reason, gone)
    left = [one for one in found if one.on(instance_id)]
    for volume in left:
        attachment = volume.on(instance_id)
        if attachment is None or attachment.state == DETACHING:
            continue
        if not volume.tagged:
            reason = f"{volume.volume_id} lost the tag {VOLUME_TAG} while it was attached to {instance_id}"
            return context, escalation.before_intent(context, NAME, "refused", reason)
        answer = context.volumes.detach(volume.volume_id, instance_id)
        if answer.failure is not None and not answer.failure.retriable:
            reason = f"{volume.volume_id} cannot be detached from {instance_id}: {answer.reason}"
            return context, escalation.before_intent(context, NAME, "refused", reason)
    if left:
        names = ", ".join(one.volume_id for one in left)
        return context, waiting(f"{names} is not detached from {instance_id} yet")
    if moving and NAME not in context.attempt.steps:
        context = context.commit(_finish)
    return context, None


def _moving(volume: Volume, instance_id: str) -> MovingVolume:
    attachment = volume.on(instance_id)
    return MovingVolume(volume.volume_id, volume.zone, instance_id, attachment.device if attachment else None)


def _not_recorded(state: NodeState, found: tuple[MovingVolume, ...]) -> tuple[MovingVolume, ...]:
    known = {(one.volume_id, one.instance_id) for one in state.moving_volumes}
    return tuple(one for one in found if (one.volume_id, one.instance_id) not in known)


def _with(state: NodeState, new: tuple[MovingVolume, ...]) -> tuple[MovingVolume, ...]:
    moved = {one.volume_id for one in new}
    return (*(one for one in state.moving_volumes if one.volume_id not in moved), *new)


def _record(state: NodeState, now: datetime, new: tuple[MovingVolume, ...]) -> Transition:
    added = _not_recorded(state, new)
    if not added:
        return Transition(state)
    case, _ = live_attempt(state)
    step = entry_builder.step(
        case, NAME, "begun", now, old_instance=added[0].instance_id, facts={"volumes": escalation.described(added)}
    )
    return Transition(replace(state, moving_volumes=_with(state, added)), (step,))


def _finish(state: NodeState, now: datetime) -> Transition:
    case, attempt = live_attempt(state)
    if NAME in attempt.steps:
        return Transition(state)
    facts = {"volumes": escalation.described(state.moving_volumes)}
    old = state.moving_volumes[0].instance_id if state.moving_volumes else None
    step = entry_builder.step(case, NAME, "detached", now, old_instance=old, facts=facts)
    return Transition(update_attempt(state, steps={**attempt.steps, NAME: StepOutcome.DONE.value}), (step,))
