"""Checks that no volume named in the policy is lost, and that each detach was recorded before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from faultbridge.model.enums import RepairAction
from faultbridge.model.times import from_text
from tests.sim.invariants.view import Invariant, SystemView

if TYPE_CHECKING:
    from tests.sim.fakes.volumes import FakeVolume

Move = tuple[str, str]
"""A volume, and the instance from which it moves."""


def _named(view: SystemView) -> Iterator[FakeVolume]:
    mover = view.ports.volume_mover
    mover.settle()
    return (one for one in mover.volumes.values() if one.name in view.system.policy.volumes)


def _lost(view: SystemView) -> Iterator[str]:
    moving = _moving(view)
    for one in _named(view):
        if one.deleted_with is None or one.deleted_with in view.system.externally_terminated:
            continue
        # A volume without its tag is not one that the policy names, unless its move had begun.
        if not one.lost_tag or (one.volume_id, one.deleted_with) in moving:
            yield f"{one.volume_id} was deleted with {one.deleted_with}"


def _moving(view: SystemView) -> set[Move]:
    """Return the moves of volumes that began, except those that ended with the volume on the old instance."""
    found: set[Move] = set()
    for body in (body for entries in view.bodies.values() for body in entries):
        found |= _moves(body, "detach_volumes", "begun")
        kept = _moves(body, "attach_volumes", "attached")
        found -= {(volume, instance) for volume, instance in kept if instance == body["data"]["new_instance"]}
    return found


def _moves(body: Mapping[str, Any], step: str, outcome: str) -> set[Move]:
    """Return the moves that an entry names if the entry records this outcome of this step, else no moves."""
    data = body["data"]
    if (data.get("step"), data.get("outcome")) != (step, outcome):
        return set()
    return {(one["volume"], one["from"]) for one in data["facts"]["volumes"]}


CLOCK_ERROR = timedelta(seconds=2)
"""The clock of a function that records a move may be this far ahead of the clock of another one."""


def _recorded(view: SystemView) -> dict[Move, datetime]:
    """Return the moves of volumes by replacements, each with the time when its start was first recorded."""
    found: dict[Move, datetime] = {}
    for body in (body for entries in view.bodies.values() for body in entries):
        if body["data"].get("repair_action") == RepairAction.REPLACE_NODE:
            at = from_text(body["metadata"]["recorded_at"])
            for move in _moves(body, "detach_volumes", "begun"):
                found.setdefault(move, at)
    return found


def _unrecorded(view: SystemView) -> Iterator[str]:
    recorded = _recorded(view)
    for volume, instance, at in view.ports.volume_mover.detached:
        known = recorded.get((volume, instance))
        if known is None or known - CLOCK_ERROR > at:
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
