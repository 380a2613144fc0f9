"""Slow clock: correct the times of a node whose heartbeats show that its clock is behind.

A heartbeat is never stored before it is sent, so the difference to its receipt is that of the clocks. The time of
sending of any other record can also be old because the record waited. Without the correction, a fault of such a node is
too old to act on, or older than the node's last repair.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Clear, Fault, Observation, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import RawRecord
from faultbridge.domain.times import to_text
from faultbridge.pipeline.normalize.timestamp import shift_last_sent

HEARTBEAT, CLOCK = "heartbeat", "host.clock"
SECONDS_OFF = "seconds_off"
TOLERANCE = timedelta(minutes=2)
"""A clock that is wrong by less is not reported, and the difference varies with the way of a heartbeat."""

_NONE = timedelta(0)
_AnyObservation = TypeVar("_AnyObservation", bound=Observation)


def slow_by(state: NodeState, observations: Iterable[Observation] = ()) -> timedelta:
    """Return how far the clock of a node is behind, as its heartbeats report; zero if it is not.

    `observations` are those of the records that arrive with the node's state; a heartbeat among them counts too.
    """
    snapshots = (one for one in observations if isinstance(one, Snapshot) and one.source == HEARTBEAT)
    reports = [fault.attributes for one in snapshots for fault in one.present if fault.code == CLOCK]
    reports += [one.attributes for one in state.active() if one.code == CLOCK and HEARTBEAT in one.sources]
    return max((_behind(attributes.get(SECONDS_OFF, "0")) for attributes in reports), default=_NONE)


def _behind(seconds_off: str) -> timedelta:
    try:
        return max(timedelta(seconds=-int(seconds_off)), _NONE)
    except (ValueError, OverflowError):
        return _NONE


def correct_record(record: RawRecord, slow: timedelta) -> RawRecord:
    """Return the record of a node whose clock is behind, with a corrected time of sending."""
    sent_at = _corrected(record.sent_at, record, slow)
    if sent_at == record.sent_at:
        return record
    return replace(record, sent_at=sent_at, values=shift_last_sent(record.values, sent_at - record.sent_at))


def correct_observation(observation: _AnyObservation, record: RawRecord, slow: timedelta) -> _AnyObservation:
    """Return an observation of a record with corrected times; the original time of a fault is kept as an attribute.

    `record` is the record as it was sent.
    """
    claimed = observation.observed_at
    at = None if claimed is None else _corrected(claimed, record, slow)
    if isinstance(observation, Snapshot):
        present = tuple(correct_observation(fault, record, slow) for fault in observation.present)
        return replace(observation, observed_at=at, present=present)
    if at == claimed or claimed is None:
        return observation
    if isinstance(observation, Fault | Clear):
        changed = {"time_claimed": to_text(claimed)} | dict(observation.attributes) | {"time_source": "shifted"}
        return replace(observation, observed_at=at, attributes=changed)
    return replace(observation, observed_at=at)


def _corrected(at: datetime, record: RawRecord, slow: timedelta) -> datetime:
    """Return a time of the node's clock, shifted forward, at most to the receipt.

    A time that is less old than the clock is behind comes from another clock. The record itself can show a larger
    difference than the last heartbeat.
    """
    age = record.received_at - at
    if not slow or age < slow - TOLERANCE:
        return at
    return at + min(max(slow, record.received_at - record.sent_at), age)
