"""Checks that no volume that the policy names is lost, and that each detach was recorded before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.times import from_text
from faultbridge.simulation.invariants.view import Invariant, SystemView

if TYPE_CHECKING:
    from faultbridge.simulation.fakes.volumes import FakeVolume


def _named(view: SystemView) -> Iterator[FakeVolume]:
    mover = view.ports.volume_mover
    mover.settle()
    return (one for one in mover.volumes.values() if one.name in view.system.policy.volumes)


def _lost(view: SystemView) -> Iterator[str]:
    unfinished = _recorded(view).keys() - _kept(view)
    for one in _named(view):
        if one.deleted_with is None or one.deleted_with in view.system.externally_terminated:
            continue
        # A volume without its tag is not one that the policy names, unless its move had begun and was not given up.
        if not one.lost_tag or (one.volume_id, one.deleted_with) in unfinished:
            yield f"{one.volume_id} was deleted with {one.deleted_with}"


def _recorded(view: SystemView) -> dict[tuple[str, str], datetime]:
    """Return when a repair first recorded each move of a volume, by volume and instance.

    The instance is the one from which the volume is detached.
    """
    found: dict[tuple[str, str], datetime] = {}
    for entries in view.bodies.values():
        for body in entries:
            data = body["data"]
            if (data.get("step"), data.get("outcome")) != ("detach_volumes", "begun"):
                continue
            if data["repair_action"] == RepairAction.REPLACE_NODE:
                at = from_text(body["metadata"]["recorded_at"])
                for one in data["facts"]["volumes"]:
                    found.setdefault((one["volume"], one["from"]), at)
    return found


def _kept(view: SystemView) -> set[tuple[str, str]]:
    """Return the volumes that stayed on an instance, by volume and instance, because their move was given up."""
    return {
        (one["volume"], one["from"])
        for entries in view.bodies.values()
        for body in entries
        if (body["data"].get("step"), body["data"].get("outcome")) == ("attach_volumes", "attached")
        for one in body["data"]["facts"]["volumes"]
        if one["from"] == body["data"]["new_instance"]
    }


def _unrecorded(view: SystemView) -> Iterator[str]:
    recorded = _recorded(view)
    for volume, instance, at in view.ports.volume_mover.detached:
        known = recorded.get((volume, instance))
        if known is None or known > at:
            yield f"{volume} left {instance} at {at:%H:%M:%S}, recorded {known}"


def _unnamed(view: SystemView) -> Iterator[str]:
    volumes = view.ports.volume_mover.volumes
    for volume, instance, _ in view.ports.volume_mover.detached:
        if volumes[volume].name not in view.system.policy.volumes:
            yield f"{volume} left {instance}"


def _missing(view: SystemView) -> Iterator[str]:
    by_name = {state.key.node: state for state in view.nodes}
    for one in _named(view):
        state = by_name.get(view.system.node_names[one.created_on])
        if state is None or state.live_case or state.status is None or not state.status.in_service:
            continue
        instance = state.incarnation.instance_id if state.incarnation else None
        if one.deleted_with is None and one.instance_id != instance and not one.lost_tag:
            yield f"{state.key.stream} serves on {instance}, and {one.volume_id} is on {one.instance_id}"


def _stolen(view: SystemView) -> Iterator[str]:
    yield from view.ports.volume_mover.stolen


INVARIANTS = (
    Invariant("no volume that the policy names is deleted with an instance that Faultbridge released", _lost),
    Invariant("a volume is detached only after the repair of its node recorded it", _unrecorded),
    Invariant("a volume that the policy does not name is never detached", _unnamed),
    Invariant("a node that serves without a case has the volumes that the policy names", _missing),
    Invariant("no volume is attached to an instance while another one has it", _stolen),
)
