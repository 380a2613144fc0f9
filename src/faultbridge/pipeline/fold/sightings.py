"""Sightings: record the devices that a health snapshot shows for the first time in a node's instance."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from faultbridge.domain.copies import replace
from faultbridge.domain.custody import take_custody
from faultbridge.domain.faults import Component, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.fold.changes import Arrival, Change, ChangeKind
from faultbridge.pipeline.normalize.resolve import IncarnationMatch


class Sightings(NamedTuple):
    """The node with its new devices, the change that records them, and the number of writes that it causes."""

    state: NodeState
    changes: tuple[Change, ...] = ()
    weight: int = 0


def record_sightings(state: NodeState, arrivals: Iterable[Arrival], oldest: datetime) -> Sightings:
    """Record the new devices of the first health snapshot that has any; a later one records the others.

    A snapshot records none if it is not certain to be about the current instance, older than `oldest`, or older than
    the last one of its source: it has no other effect either.
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
    """Return the devices that a snapshot lists, or else those that it could check."""
    return snapshot.devices or dict.fromkeys(one for covered in snapshot.covers.values() for one in covered)


def _change(seen: tuple[Component, ...], instance_id: str | None, arrival: Arrival) -> Change:
    listed = [
        {"uuid": one.uuid, "serial": one.serial, "pci": one.pci, "index": one.index, "type": one.type.value}
        for one in seen
    ]
    text = f"{len(listed)} device{'s' if len(listed) > 1 else ''} first seen in {instance_id or 'this instance'}"
    facts = {"instance_id": instance_id, "devices": listed}
    return Change(ChangeKind.DEVICES, arrival.at, None, None, arrival.record_id, text, facts=facts)
