"""Decodes `ec2-event`: state changes and warnings of instances and reservations, from Amazon EC2 on EventBridge.

Grammar: one or more EventBridge events with `detail.instance-id` or `detail.capacity-reservation-id`. Times: `time` of
the event, in UTC. Units: none. Errors: `Rejected(no_framing)` if the body has no event of aws.ec2. Source: Amazon EC2's
event documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, attributes_of, evidence, members, text
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Fault, Observation, Snapshot

_INSTANCE = re.compile(r"(?:.{0,256}/)?(i-[0-9a-f]{8,17})")


class CloudEvent(Struct, frozen=True):
    """One EventBridge event: `detail-type` as `kind`, `detail`, `time` as `at`, and `id`."""

    kind: str
    detail: Mapping[str, Any]
    at: datetime | None
    id: str | None


def cloud_events(body: bytes, source: str) -> Iterator[CloudEvent]:
    """Yield the EventBridge events of one source, such as `aws.ec2`, in a body."""
    for _, document in objects(text_of(body)):
        if document.get("source") == source and isinstance(document.get("detail"), dict):
            kind = text(document.get("detail-type", document.get("detail_type")), 128) or ""
            yield CloudEvent(
                kind, members(document["detail"]), instant(document.get("time")), text(document.get("id"), 64)
            )


def instance_of(name: object) -> str | None:
    """Return the instance id in `name`, or None if it contains none."""
    # The ARN of a Spot event has neither region nor account.
    found = _INSTANCE.fullmatch(text(name, 512) or "")
    return found[1] if found else None


SOURCE = "ec2-event"
STATE_CHANGE = "EC2 Instance State-change Notification"
STOPPED, GONE = "cloud.instance_stopped", "cloud.instance_gone"
_STATES: Mapping[str, str] = {"stopping": STOPPED, "stopped": STOPPED, "shutting-down": GONE, "terminated": GONE}
_RECLAIMED = ("cloud.spot_interruption", "EC2 takes the capacity of the instance back")
_RESERVATION = re.compile(
    r"Capacity Block (?:Reservation )?Expiration Warning|EC2 Capacity Reservation (?:Delayed|Failed|Expired)"
)
_WARNINGS: Mapping[str, tuple[str, str]] = {
    "EC2 Spot Instance Interruption Warning": ("cloud.spot_interruption", "EC2 interrupts the Spot instance"),
    "EC2 Capacity Reservation Instance Interruption Warning": _RECLAIMED,
    "EC2 Interruptible Capacity Reservation Instance Interruption Warning": _RECLAIMED,
    "EC2 Instance Rebalance Recommendation": ("cloud.rebalance_recommended", "EC2 may interrupt the Spot instance"),
}


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each stop, termination or warning, and a health snapshot for each start."""
    events = tuple(cloud_events(body, "aws.ec2"))
    if not events:
        raise Rejected("no_framing", "no event of aws.ec2")
    return tuple(observation for event in events for observation in _observations(event))


def _observations(event: CloudEvent) -> Iterator[Observation]:
    instance_id = instance_of(event.detail.get("instance-id"))
    state = text(event.detail.get("state"), 32) or ""
    if instance_id is None:
        reservation = text(event.detail.get("capacity-reservation-id"), 64)
        if reservation and _RESERVATION.fullmatch(event.kind):
            yield _fault(event, "cloud.capacity_ends", f"{event.kind}: {reservation}.", None)
        return
    if event.kind in _WARNINGS:
        code, message = _WARNINGS[event.kind]
        action = text(event.detail.get("instance-action"), 32)
        yield _fault(event, code, f"{message}{f' ({action})' if action else ''}.", instance_id)
    elif event.kind == STATE_CHANGE and state in _STATES:
        yield _fault(event, _STATES[state], f"EC2 reports the instance as {state}.", instance_id)
    elif event.kind == STATE_CHANGE and state == "running":
        covers = {STOPPED: (NODE_COMPONENT,), GONE: (NODE_COMPONENT,)}
        yield Snapshot(SOURCE, covers, (), event.at, node=instance_id)


def _fault(event: CloudEvent, code: str, message: str, instance_id: str | None) -> Fault:
    names = ("state", "instance-action", "capacity-reservation-id", "end-date", "instance-termination-time")
    fields = {name: text(event.detail.get(name), 64) for name in names}
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=message,
        observed_at=event.at,
        evidence=evidence(f"{event.kind}: {', '.join(f'{name}={value}' for name, value in fields.items() if value)}"),
        attributes=attributes_of(
            instance_id=instance_id,
            event_id=event.id,
            state=fields["state"],
            action=fields["instance-action"],
            capacity_reservation=fields["capacity-reservation-id"],
            ends_at=fields["end-date"] or fields["instance-termination-time"],
        ),
        node=instance_id,
    )
