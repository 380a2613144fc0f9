"""Sightings: record the devices that a health snapshot shows for the first time in a node's instance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Component, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.fold.changes import Arrival, Change, ChangeKind
from faultbridge.pipeline.normalize.resolve import IncarnationMatch

MAX_SIGHTINGS = 8
"""Maximum devices that one entry records; the next health snapshot records the others."""

MAX_CUSTODY = 64
"""Maximum sightings that a node keeps. The oldest are dropped; a dropped device is recorded again when it is seen."""


class Sightings(NamedTuple):
    """The result of `record_sightings`.

    - `state` is the node. Its `custody` also contains the devices that its instance shows for the first time.
    - `changes` contains the change that records these devices on the timeline; it is empty if there are none.
    - `weight` is the number of writes to the table that this change needs; a commit has a maximum.
    """

    state: NodeState
    changes: tuple[Change, ...] = ()
    weight: int = 0


def record_sightings(state: NodeState, arrivals: Iterable[Arrival], oldest: datetime) -> Sightings:
    """Record the new devices of the first health snapshot that has new devices.

    At most `MAX_SIGHTINGS` devices are recorded. Other new devices are recorded when they are reported again. A
    snapshot is ignored if it is not certainly about the current instance, is older than `oldest`, or is older than the
    last snapshot of its reporter.
    """
    for arrival in arrivals:
        snapshot, incarnation = arrival.observation, state.incarnation
        certain = incarnation is not None and arrival.incarnation is IncarnationMatch.CURRENT
        if incarnation is None or not certain or not isinstance(snapshot, Snapshot):
            continue
        last = state.snapshots.get(snapshot.reporter_key)
        if arrival.at < oldest or (last is not None and arrival.at < last):
            continue
        custody, new = take_custody(state.custody, incarnation.instance, _devices(snapshot))
        if new:
            change = _change(new, incarnation.instance_id, arrival)
            return Sightings(replace(state, custody=custody), (change,), 1 + 2 * len(new))
    return Sightings(state)


def _devices(snapshot: Snapshot) -> Iterable[Component]:
    return snapshot.devices or dict.fromkeys(one for covered in snapshot.covers.values() for one in covered)


def _change(seen: tuple[Component, ...], instance_id: str | None, arrival: Arrival) -> Change:
    listed = [
        {"uuid": one.uuid, "serial": one.serial, "pci": one.pci, "index": one.index, "type": one.type.value}
        for one in seen
    ]
    text = f"{len(listed)} device{'s' if len(listed) > 1 else ''} first seen in {instance_id or 'this instance'}"
    facts = {"instance_id": instance_id, "devices": listed}
    return Change(ChangeKind.DEVICES, arrival.at, None, None, arrival.record_id, text, facts=facts)


def take_custody(
    custody: tuple[str, ...], instance: int, devices: Iterable[Component]
) -> tuple[tuple[str, ...], tuple[Component, ...]]:
    """Record that a node's instance has these devices; return the new custody and the new devices.

    A device is new if `custody` does not contain its UUID (or its serial number, if it has no UUID) in this slot of
    this instance. A slot is a PCI address. A device that a report does not list stays recorded, because a source may
    list only some of the devices. The devices of earlier instances are left out of the new custody. At most
    `MAX_SIGHTINGS` new devices are returned, and the custody keeps the last `MAX_CUSTODY`.
    """
    current = [one for one in custody if one.startswith(f"{instance}|")]
    known = set(current)
    named = [device for device in devices if device.uuid or device.serial]
    new = tuple(islice((device for device in named if not _is_known(known, instance, device)), MAX_SIGHTINGS))
    return (*current, *(_sighting(instance, device) for device in new))[-MAX_CUSTODY:], new


def _is_known(known: set[str], instance: int, device: Component) -> bool:
    sighting = _sighting(instance, device)
    return sighting in known or (device.pci is None and any(one.startswith(sighting) for one in known))


def _sighting(instance: int, device: Component) -> str:
    return f"{instance}|{device.uuid or device.serial}|{device.pci or ''}"
