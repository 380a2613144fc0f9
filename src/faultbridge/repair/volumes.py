"""Volumes: moves the EBS volumes that the policy names from the old instance to its successor.

`NodeState.moving_volumes` is written before the first call that detaches a volume, so that no volume is lost in a
crash. Each step reads the current attachments before it acts.

Tests: tests/scenarios/repair/test_volumes.py, tests/contracts/test_volumes.py and tests/simulation/test_volumes.py.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.model.entries import Transition
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import VOLUME_TAG, MovingVolume, NodeState
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ATTACHED, DETACHING, Volume
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    live_attempt,
    update_attempt,
    waiting,
)
from faultbridge.repair.successor.launch import launch_request

DETACH_NAME, ATTACH_NAME = "detach_volumes", "attach_volumes"

# Zones: checks that a successor is in the availability zone of the EBS volumes that move to it.
#
# An EBS volume can be attached only to an instance in its own availability zone.


def refused_zones(context: StepContext, moving: tuple[MovingVolume, ...], spare: str | None) -> str | None:
    """Return why a successor could not attach the moving volumes, or None if no reason is known.

    This function is called before the old instance is released.

    - If the successor is known (`spare`, or an instance that is already launched), it must be in the zone of the
      volumes.
    - If the successor is not known, the zone of the volumes must be the only zone in which the group can launch it.
    """
    group = context.state.placement.group
    if not moving or group is None:
        return None
    launched = (spare,) if spare else _launched(context, group)
    if launched:
        return next(filter(None, (zone_refusal(context, moving, one) for one in launched)), None)
    possible = context.volumes.successor_zones(group)
    for volume in moving:
        others = sorted(possible - {volume.zone})
        if others:
            return f"{volume.volume_id} is in {volume.zone}, but {group} may launch a successor in {', '.join(others)}"
    return None


def volume_zones(context: StepContext, instance_id: str) -> frozenset[str]:
    """Return the zones of the volumes that move from an instance, including those already detached."""
    if not context.moves_volumes:
        return frozenset()
    attached = context.volumes.attached(instance_id, context.rules.policy.volumes)
    return frozenset(one.zone for one in attached) | {one.zone for one in context.state.moving_volumes}


def in_zones(context: StepContext, instance_id: str, zones: frozenset[str]) -> bool:
    """Return whether all volumes can attach: there are none, or the zone of the instance is theirs or unknown."""
    if not zones:
        return True
    zone = context.volumes.zone_of(instance_id)
    return zone is None or zones == {zone}


def zone_refusal(context: StepContext, moving: tuple[MovingVolume, ...], instance_id: str) -> str | None:
    """Return which volume is in another zone than the instance, or None if none is known to be."""
    zone = context.volumes.zone_of(instance_id)
    wrong = [one for one in moving if zone is not None and one.zone != zone]
    return f"{wrong[0].volume_id} is in {wrong[0].zone}, but {instance_id} is in {zone}" if wrong else None


def refuse_release(context: StepContext) -> CallResult | None:
    """Return a failure if a successor runs in another zone than the volumes that move."""
    moving, group = context.state.moving_volumes, context.state.placement.group
    launched = _launched(context, group) if moving and group else ()
    reason = next(filter(None, (zone_refusal(context, moving, one) for one in launched)), None)
    return CallResult(ProviderFailure.PROVIDER_ERROR, reason) if reason else None


def _launched(context: StepContext, group: str) -> tuple[str, ...]:
    if context.launcher is None:
        return ()
    return tuple(one.instance_id for one in context.launcher.launched(launch_request(context, group)))


def before_intent(context: StepContext, outcome: str, reason: str, gone: Collection[str] = ()) -> StepResult:
    """Escalate before the intent, because a volume cannot move; volumes in `gone` are forgotten."""
    return _escalate(context, DETACH_NAME, outcome, reason, gone)


def before_service(context: StepContext, reason: str, lost: Collection[str] = ()) -> StepResult:
    """Escalate before the node serves, because a volume is not attached; `lost` ones are forgotten."""
    return _escalate(context, ATTACH_NAME, "failed", reason, lost)


def described(volumes: tuple[MovingVolume, ...]) -> list[dict[str, object]]:
    """Return volumes in the form that an entry records."""
    return [
        {"volume": one.volume_id, "zone": one.zone, "device": one.device, "from": one.instance_id} for one in volumes
    ]


def without(state: NodeState, volumes: Collection[str]) -> NodeState:
    """Return the node without the given volumes in its record of moving volumes."""
    left = tuple(one for one in state.moving_volumes if one.volume_id not in volumes)
    return replace(state, moving_volumes=left)


def _escalate(context: StepContext, step: str, outcome: str, reason: str, forgotten: Collection[str]) -> StepResult:
    instance, detaches = context.instance_id, step == DETACH_NAME
    draft = context.entry(
        outcome,
        step=step,
        reason=reason,
        failure=ProviderFailure.PROVIDER_ERROR,
        old_instance=instance if detaches else None,
        new_instance=None if detaches else instance,
        facts={"volumes": described(context.state.moving_volumes)},
    )
    return context.escalate_to_operator(
        f"VOLUMES: {reason}", draft, fails=detaches, change=lambda state: without(state, forgotten)
    )


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
    refusal = refused_zones(context, _with(context.state, new), spare)
    if refusal is not None:
        return context, before_intent(context, "refused", refusal)
    if new:
        context = context.commit(lambda state, now: _record(state, now, new))
    return _detach(context, instance_id)


def refuse_unmovable(context: StepContext) -> StepResult | None:
    """Escalate the case if volumes must move, but the provider has no adapter for them."""
    if not context.moves_volumes or not context.lacks_volumes:
        return None
    name = context.rules.config.provider
    reason = (
        f"the policy names volumes, but provider {name!r} cannot move any; remove `volumes` from the policy of "
        f"{context.rules.config.cluster}, or install an extension with the part {name!r} of faultbridge.volumes"
    )
    return before_intent(context, "refused", reason)


def waits_for_volumes(context: StepContext) -> bool:
    """Return whether moving volumes are still attached; if unreadable, whether any are recorded."""
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
    """Return the volumes that the orchestrator's storage driver, if known, has not detached."""
    attachments = context.tools.volume_attachments.get(context.rules.config.orchestrator)
    return attachments.remaining(context.member) if attachments else ()


def _detach(context: StepContext, instance_id: str) -> tuple[StepContext, StepResult | None]:
    moving = context.state.moving_volumes
    found = context.volumes.read(one.volume_id for one in moving)
    gone = {one.volume_id for one in moving} - {one.volume_id for one in found}
    if gone:
        reason = f"{', '.join(sorted(gone))} does not exist any more"
        return context, before_intent(context, "refused", reason, gone)
    left = [one for one in found if one.on(instance_id)]
    for volume in left:
        attachment = volume.on(instance_id)
        if attachment is None or attachment.state == DETACHING:
            continue
        if not volume.tagged:
            reason = f"{volume.volume_id} lost the tag {VOLUME_TAG} while it was attached to {instance_id}"
            return context, before_intent(context, "refused", reason)
        answer = context.volumes.detach(volume.volume_id, instance_id)
        if answer.failure is not None and not answer.failure.retriable:
            reason = f"{volume.volume_id} cannot be detached from {instance_id}: {answer.reason}"
            return context, before_intent(context, "refused", reason)
    if left:
        names = ", ".join(one.volume_id for one in left)
        return context, waiting(f"{names} is not detached from {instance_id} yet")
    if moving and DETACH_NAME not in context.attempt.steps:
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
        case, DETACH_NAME, "begun", now, old_instance=added[0].instance_id, facts={"volumes": described(added)}
    )
    return Transition(replace(state, moving_volumes=_with(state, added)), (step,))


def _finish(state: NodeState, now: datetime) -> Transition:
    case, attempt = live_attempt(state)
    if DETACH_NAME in attempt.steps:
        return Transition(state)
    facts = {"volumes": described(state.moving_volumes)}
    old = state.moving_volumes[0].instance_id if state.moving_volumes else None
    step = entry_builder.step(case, DETACH_NAME, "detached", now, old_instance=old, facts=facts)
    return Transition(update_attempt(state, steps={**attempt.steps, DETACH_NAME: StepOutcome.DONE.value}), (step,))


# Attaches the volumes of a node to its current instance before the node returns to service.
#
# The current instance is the successor, or the old instance if it was not replaced.


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
    here = {name: one.on(instance_id) for name, one in found.items()}
    attached = {name for name, one in here.items() if one is not None and one.state == ATTACHED}
    if attached:
        context = context.commit(lambda state, now: _record_of_attach(state, now, attached, instance_id))
    left = context.state.moving_volumes
    kept = {name for name, one in found.items() if one.tagged or one.on(instance_id)}
    lost = {one.volume_id for one in left} - kept
    if lost:
        reason = f"{', '.join(sorted(lost))} does not exist any more, or lost the tag {VOLUME_TAG}"
        return context, before_service(context, reason, lost)
    free = tuple(one for one in left if _is_free(found[one.volume_id], instance_id))
    refused = zone_refusal(context, free, instance_id) if free else None
    reasons = [] if refused else [_attach(context, one, found[one.volume_id], instance_id) for one in left]
    refused = next((reason for reason, final in reasons if final), refused)
    if refused is not None:
        return context, before_service(context, refused)
    return context, waiting("; ".join(reason for reason, _ in reasons)) if reasons else None


def _attach(context: StepContext, moving: MovingVolume, volume: Volume, instance_id: str) -> tuple[str, bool]:
    """Start to attach a free volume; return why it is not attached yet, and whether that is final."""
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


def _record_of_attach(state: NodeState, now: datetime, attached: Collection[str], instance_id: str) -> Transition:
    done = tuple(one for one in state.moving_volumes if one.volume_id in attached)
    if not done:
        return Transition(state)
    case, _ = live_attempt(state)
    step = entry_builder.step(
        case,
        ATTACH_NAME,
        "attached",
        now,
        old_instance=done[0].instance_id,
        new_instance=instance_id,
        facts={"volumes": described(done)},
    )
    return Transition(without(state, attached), (step,))
