"""Decodes `ec2-event`, `ec2-status` and `health-event`: notices of AWS about instances.

`ec2-event` are state changes and warnings of instances and reservations on EventBridge: events with
`detail.instance-id` or `detail.capacity-reservation-id`. `ec2-status` is the response of DescribeInstanceStatus: JSON
with `InstanceStatuses`, whose details can be null or absent. The system status describes the underlying host, and the
instance status the operating system; a stopped instance has neither. `health-event` is AWS Health on EventBridge, with
`affectedEntities`; the mapping `health` translates event types and categories into fault codes.

Times: with a time zone, RFC 3339 or RFC 1123; scheduled times are in the future and become attributes. Units: none.
Errors: `Rejected(no_framing)` if the body has no such event or status. Source: AWS's documentation, captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.data import table
from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, fault_of, members, objects_in, text, to_clear
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Observation, Snapshot
from faultbridge.model.times import to_text

EC2_EVENT, EC2_STATUS, HEALTH_EVENT = "ec2-event", "ec2-status", "health-event"
_TABLE = table("aws")
_ON_NODE: tuple[Component, ...] = (NODE_COMPONENT,)
_INSTANCE = re.compile(r"(?:.{0,256}/)?(i-[0-9a-f]{8,17})")
_STATE_CHANGE = "EC2 Instance State-change Notification"
_RESERVATION = re.compile(
    r"Capacity Block (?:Reservation )?Expiration Warning|EC2 Capacity Reservation (?:Delayed|Failed|Expired)"
)
_SCHEDULED: Mapping[str, str] = _TABLE["scheduled"]
_DONE = ("[Completed]", "[Canceled]")
_ENDED = frozenset({"RESOLVED", "UNIMPAIRED"})


class CloudEvent(Struct, frozen=True):
    """One EventBridge event: `detail-type` as `kind`, `detail`, `time` as `at`, and `id`."""

    kind: str
    detail: Mapping[str, Any]
    at: datetime | None
    id: str | None


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the observations of the instances in events or statuses of one source."""
    if source == EC2_STATUS:
        statuses = tuple(_statuses(text_of(body)))
        if not statuses:
            raise Rejected("no_framing", "no instance status")
        return tuple(_status(item) for item in statuses if item)
    name = "aws.ec2" if source == EC2_EVENT else "aws.health"
    events = tuple(_events(body, name))
    if not events:
        raise Rejected("no_framing", f"no event of {name}")
    if source == EC2_EVENT:
        return tuple(one for event in events for one in _of_ec2(event))
    mapped = mapping("health", hints.mappings)
    return tuple(one for event in events for one in _of_health(event, mapped))


def _events(body: bytes, source: str) -> Iterator[CloudEvent]:
    for _, document in objects(text_of(body)):
        detail = document.get("detail")
        if document.get("source") == source and isinstance(detail, dict):
            kind = text(document.get("detail-type", document.get("detail_type")), 128) or ""
            yield CloudEvent(kind, detail, instant(document.get("time")), text(document.get("id"), 64))


def _instance(name: object) -> str | None:
    # The ARN of a Spot event has neither region nor account.
    found = _INSTANCE.fullmatch(text(name, 512) or "")
    return found[1] if found else None


def _of_ec2(event: CloudEvent) -> Iterator[Observation]:
    """Yield a fault for a stop, a termination or a warning, and a health snapshot for a start."""
    instance_id = _instance(event.detail.get("instance-id"))
    state = text(event.detail.get("state"), 32) or ""
    if instance_id is None:
        # A warning about a reservation names no node.
        reservation = text(event.detail.get("capacity-reservation-id"), 64)
        if reservation and _RESERVATION.fullmatch(event.kind):
            yield _event_fault(event, "cloud.capacity_ends", f"{event.kind}: {reservation}.", None)
    elif event.kind in _TABLE["warnings"]:
        code, message = _TABLE["warnings"][event.kind]
        action = text(event.detail.get("instance-action"), 32)
        yield _event_fault(event, code, f"{message}{f' ({action})' if action else ''}.", instance_id)
    elif event.kind == _STATE_CHANGE and state in _TABLE["states"]:
        yield _event_fault(event, _TABLE["states"][state], f"EC2 reports the instance as {state}.", instance_id)
    elif event.kind == _STATE_CHANGE and state == "running":
        covers = dict.fromkeys(_TABLE["states"].values(), _ON_NODE)
        yield Snapshot(EC2_EVENT, covers, (), event.at, node=instance_id)


def _event_fault(event: CloudEvent, code: str, message: str, instance_id: str | None) -> Fault:
    names = ("state", "instance-action", "capacity-reservation-id", "end-date", "instance-termination-time")
    fields = {name: value for name in names if (value := text(event.detail.get(name), 64))}
    raw = f"{event.kind}: {', '.join(f'{name}={value}' for name, value in fields.items())}"
    return fault_of(
        EC2_EVENT,
        code,
        NODE_COMPONENT,
        message,
        raw,
        event.at,
        instance_id,
        instance_id=instance_id,
        event_id=event.id,
        state=fields.get("state"),
        action=fields.get("instance-action"),
        capacity_reservation=fields.get("capacity-reservation-id"),
        ends_at=fields.get("end-date") or fields.get("instance-termination-time"),
    )


def _statuses(body: str) -> Iterator[Mapping[str, Any]]:
    for _, document in objects(body):
        listed = document.get("InstanceStatuses")
        if isinstance(listed, list):
            # An answer without instances is valid; the empty status marks the format as recognized.
            yield {}
            yield from (item for item in objects_in(listed) if _instance(item.get("InstanceId")))
        elif _instance(document.get("InstanceId")) and "InstanceStatus" in document:
            yield document


def _status(status: Mapping[str, Any]) -> Snapshot:
    """Return a health snapshot of an instance. A check without a result neither finds nor clears a fault."""
    instance_id = _instance(status["InstanceId"])
    covers: dict[str, tuple[Component, ...]] = {}
    present: list[Fault] = []
    for name, (code, subject) in _TABLE["checks"].items():
        check = members(status.get(name))
        result = text(check.get("Status"), 32)
        if result in {"ok", "impaired"}:
            covers[code] = _ON_NODE
        if result == "impaired":
            present.append(_impaired(code, subject, check, instance_id))
    if "Events" in status:
        covers |= dict.fromkeys(_SCHEDULED.values(), _ON_NODE)
        present += _planned(status["Events"], instance_id)
    return Snapshot(EC2_STATUS, covers, tuple(present), node=instance_id)


def _impaired(code: str, subject: str, check: Mapping[str, Any], instance_id: str | None) -> Fault:
    failed = [item for item in objects_in(check.get("Details")) if item.get("Status") == "failed"]
    since = next((at for item in failed if (at := instant(item.get("ImpairedSince")))), None)
    names = ", ".join(name for item in failed if (name := text(item.get("Name"), 64))) or "unnamed check"
    details = {"instance_id": instance_id, "failed": names, "impaired_since": to_text(since) if since else None}
    message, raw = f"EC2 reports {subject} as impaired ({names}).", f"Status: impaired, failed: {names}"
    return fault_of(EC2_STATUS, code, NODE_COMPONENT, message, raw, since, instance_id, **details)


def _planned(events: object, instance_id: str | None) -> Iterator[Fault]:
    for event in objects_in(events):
        code, description = text(event.get("Code"), 64) or "", text(event.get("Description")) or ""
        if code in _SCHEDULED and not description.startswith(_DONE):
            starts_at = instant(event.get("NotBefore"))
            yield fault_of(
                EC2_STATUS,
                _SCHEDULED[code],
                NODE_COMPONENT,
                description or f"EC2 scheduled {code}.",
                f"{code}: {description}",
                node=instance_id,
                instance_id=instance_id,
                event_code=code,
                event_id=text(event.get("InstanceEventId"), 64),
                not_before=to_text(starts_at) if starts_at else None,
            )


def _of_health(event: CloudEvent, mapped: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    """Yield a fault or a clear for each affected instance; other resources yield nothing."""
    detail = event.detail
    kind, category = text(detail.get("eventTypeCode"), 128) or "", text(detail.get("eventTypeCategory"), 64) or ""
    by_type = next((row["code"] for row in mapped["types"] if re.fullmatch(row["pattern"], kind)), None)
    code = str(by_type or mapped["categories"].get(category, "cloud.health_issue"))
    for item in objects_in(detail.get("affectedEntities")):
        instance_id = _instance(item.get("entityValue"))
        if instance_id is not None:
            at = instant(item.get("lastUpdatedTime")) or _noticed_at(event)
            fault = _health_fault(event, code, kind or "event without a type", instance_id, at)
            ended = item.get("status") in _ENDED or detail.get("statusCode") == "closed"
            yield to_clear(fault) if ended else fault


def _noticed_at(event: CloudEvent) -> datetime | None:
    """Return the time at which AWS Health published the notice, or None if it is unknown.

    The time is `lastUpdatedTime` if the event has it, else `time`. If the `time` of a scheduled change equals the
    scheduled start, `time` does not state when the notice was published, and the result is None.
    """
    updated = instant(event.detail.get("lastUpdatedTime"))
    if updated is not None:
        return updated
    is_schedule = event.detail.get("eventTypeCategory") == "scheduledChange"
    return None if is_schedule and event.at == instant(event.detail.get("startTime")) else event.at


def _health_fault(event: CloudEvent, code: str, kind: str, instance_id: str, at: datetime | None) -> Fault:
    detail = event.detail
    texts = (text(item.get("latestDescription")) for item in objects_in(detail.get("eventDescription")))
    description = next(filter(None, texts), "").replace("\\n", " ")
    page, pages = (text(str(detail.get(name) or ""), 8) for name in ("page", "totalPages"))
    details: dict[str, str | None] = {"instance_id": instance_id, "event_type_code": kind}
    details |= {name: text(detail.get(member), 512) for name, member in _TABLE["health"].items()}
    details["page"] = f"{page} of {pages}" if page and pages else None
    details["actionability"] = text(detail.get("actionability"), 64)
    for name, member in (("start_time", "startTime"), ("end_time", "endTime")):
        time = instant(detail.get(member))
        details[name] = to_text(time) if time else None
    message = f"{kind}: {description}" if description else kind
    return fault_of(HEALTH_EVENT, code, NODE_COMPONENT, message, description or kind, at, instance_id, **details)
