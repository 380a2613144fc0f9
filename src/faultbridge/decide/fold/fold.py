"""Fold: apply observations to a node's conditions; duplicates and reordering change nothing.

Records are not stored, only their effects. An observation that is older than the policy's `remember_for` is too old.
For a later observation, one of these times decides whether it is too old:

- watermark: the time of the latest counted observation of a reporter, stored in the condition.
- snapshot time: the time of the last health snapshot of a reporter.
- tombstone: the watermarks of a condition that ended, and the time of its end.
- evicted: by code, the latest end of the conditions whose tombstones were evicted.
- floor: one time for all conditions of the node. It rises when the verification of a new instance passes.

A fault that these two times exclude was possibly never seen, so it becomes a note (`attribution`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind, Folded
from faultbridge.decide.fold.claims import Claims, with_damped
from faultbridge.decide.fold.daily_notes import LATE, UNREGISTERED
from faultbridge.decide.fold.node_conditions import NodeConditions
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.catalog import Catalog
from faultbridge.model.faults import Clear, Component, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace


def fold(
    state: NodeState,
    arrivals: Iterable[Arrival],
    *,
    now: datetime,
    catalog: Catalog,
    limits: Limits,
    changed: int = 0,
    damped: Collection[str] = (),
) -> Folded:
    """Apply observations in the order of their times, up to one commit; claims of `damped` sources are notes."""
    conditions = NodeConditions(state, catalog, changed)
    claims = Claims(conditions, state, catalog, now, now + limits.claim_ttl, damped)
    outcomes: dict[str, Outcome] = {}
    ordered = sorted(arrivals, key=lambda arrival: arrival.at)
    applied = 0
    for arrival in ordered:
        if conditions.is_full:
            break
        outcome = _apply(conditions, claims, arrival, oldest=now - limits.remember_for)
        strongest = outcomes.get(arrival.record_id)
        if strongest is None or outcome.rank > strongest.rank:
            outcomes[arrival.record_id] = outcome
        if conditions.interrupted:
            break
        applied += 1
    folded = with_damped(conditions.state(), claims.refuted, now) if claims.refuted else conditions.state()
    return Folded(folded, tuple(conditions.changes), outcomes, tuple(ordered[applied:]))


def _apply(conditions: NodeConditions, claims: Claims, arrival: Arrival, *, oldest: datetime) -> Outcome:
    if arrival.at < oldest:
        return Outcome.STALE
    if arrival.incarnation is IncarnationMatch.EARLIER:
        return _record_late_fault(conditions, arrival)
    if not arrival.claimed:
        return _apply_observation(conditions, claims, arrival)
    rest, noted = claims.note_damped(arrival)
    if rest is None:
        return noted
    outcome = _apply_observation(conditions, claims, rest)
    claims.limit()
    return max(outcome, noted, key=lambda one: one.rank)


def _apply_observation(conditions: NodeConditions, claims: Claims, arrival: Arrival) -> Outcome:
    observation = arrival.observation
    if isinstance(observation, Fault):
        return conditions.apply_fault(observation, arrival)
    if isinstance(observation, Clear):
        return conditions.apply_clear(observation, arrival)
    if isinstance(observation, Snapshot):
        refuted = claims.refute(arrival)
        applied = refuted if conditions.interrupted else conditions.apply_snapshot(observation, arrival)
        return max(refuted, applied, key=lambda outcome: outcome.rank)
    return Outcome.CLEAN


def _record_late_fault(conditions: NodeConditions, arrival: Arrival) -> Outcome:
    """Record a fault of another instance or boot as a daily note; any other observation is stale."""
    fault = arrival.observation
    if not isinstance(fault, Fault):
        return Outcome.STALE
    group = LATE if conditions.is_own_instance(arrival.instance_id) else UNREGISTERED
    reason = "about an earlier incarnation" if group == LATE else "reported by an instance that never backed this node"
    noted = conditions.note(ChangeKind.LATE, group, fault.code, fault, arrival, reason)
    return noted if noted is Outcome.RECORDED else Outcome.STALE


MAX_SIGHTINGS = 8
"""Maximum devices that one entry records; the next health snapshot records the others."""

MAX_CUSTODY = 64
"""Maximum sightings that a node keeps. The oldest are dropped; a dropped device is recorded again when it is seen."""


class Sightings(NamedTuple):
    """The node with its new devices, the change that records them, and the writes that it needs (`weight`)."""

    state: NodeState
    changes: tuple[Change, ...] = ()
    weight: int = 0


def record_sightings(state: NodeState, arrivals: Iterable[Arrival], oldest: datetime) -> Sightings:
    """Record the new devices of the first snapshot that has new ones, at most `MAX_SIGHTINGS`.

    A snapshot is ignored if it is not certainly about the current instance, or is older than `oldest` or the reporter's
    last one.
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


_Covers = Mapping[str, tuple[Component, ...]]
_NAMED: dict[int, tuple[_Covers, Iterable[Component]]] = {}
_MAX_NAMED = 64


def _devices(snapshot: Snapshot) -> Iterable[Component]:
    if snapshot.devices:
        return snapshot.devices
    # A decoder covers hundreds of codes, and uses one object for the snapshots of many nodes.
    covers = snapshot.covers
    known = _NAMED.get(id(covers))
    if known is None or known[0] is not covers:
        if len(_NAMED) >= _MAX_NAMED:
            _NAMED.clear()
        lists = {id(covered): covered for covered in covers.values()}.values()
        named = dict.fromkeys([one for covered in lists for one in covered if one.uuid or one.serial])
        known = _NAMED[id(covers)] = covers, named
    return known[1]


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

    A device is new if its UUID, or else its serial number, is not in `custody` in this PCI slot of this instance. A
    device that a report does not list stays recorded, because a source may list only some of the devices.
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
