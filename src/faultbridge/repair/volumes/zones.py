"""Zones: checks that a successor is in the availability zone of the EBS volumes that move to it.

An EBS volume can be attached only to an instance in its own availability zone.
"""

from __future__ import annotations

from faultbridge.domain.cluster.volumes import MovingVolume
from faultbridge.ports import CallResult, ProviderFailure
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.successor.launch import launch_request


def refusal(context: StepContext, moving: tuple[MovingVolume, ...], spare: str | None) -> str | None:
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
    """Return whether an instance is in the zone of all volumes, so that they can be attached to it.

    `zones` are the zones of the volumes. If the zone of the instance is not known, the result is True. If the volumes
    are in several zones, it is False.
    """
    zone = context.volumes.zone_of(instance_id)
    return zone is None or zones == {zone}


def zone_refusal(context: StepContext, moving: tuple[MovingVolume, ...], instance_id: str) -> str | None:
    """Return why an instance cannot attach the volumes: one of them is in another zone than the instance.

    The result is None if all volumes are in the zone of the instance, or if this zone is not known.
    """
    zone = context.volumes.zone_of(instance_id)
    wrong = [one for one in moving if zone is not None and one.zone != zone]
    return f"{wrong[0].volume_id} is in {wrong[0].zone}, but {instance_id} is in {zone}" if wrong else None


def refuse_release(context: StepContext) -> CallResult | None:
    """Return a failure if the old instance must not be released, or None if it may be released.

    It must not be released if a successor was already launched in another zone than that of the volumes that move.
    """
    moving, group = context.state.moving_volumes, context.state.placement.group
    launched = _launched(context, group) if moving and group else ()
    reason = next(filter(None, (zone_refusal(context, moving, one) for one in launched)), None)
    return CallResult(ProviderFailure.PROVIDER_ERROR, reason) if reason else None


def _launched(context: StepContext, group: str) -> tuple[str, ...]:
    if context.launcher is None:
        return ()
    return tuple(one.instance_id for one in context.launcher.launched(launch_request(context, group)))
