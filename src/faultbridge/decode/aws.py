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

from faultbridge.decode.data import table
from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of, to_clear
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import members, objects_in, text
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Clear, Fault, Observation
from faultbridge.model.times import to_text

EC2_EVENT, EC2_STATUS, HEALTH_EVENT = "ec2-event", "ec2-status", "health-event"
_TABLE = table("aws")
_Event = Mapping[str, Any]
_INSTANCE = re.compile(r"(?:.{0,256}/)?(i-[0-9a-f]{8,17})")
_EC2_FIELDS = ("state", "instance-action", "capacity-reservation-id", "end-date", "instance-termination-time")
_STATE_CHANGE = "EC2 Instance State-change Notification"
_RESERVATION = re.compile(
    r"Capacity Block (?:Reservation )?Expiration Warning|EC2 Capacity Reservation (?:Delayed|Failed|Expired)"
)
_DONE = ("[Completed]", "[Canceled]")
_ENDED = frozenset({"RESOLVED", "UNIMPAIRED"})


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the observations of the instances in events or statuses of one source."""
    if source == EC2_STATUS:
        statuses = tuple(_statuses(text_of(body)))
        if not statuses:
            raise Rejected("no_framing", "no instance status")
        found = (item for item in statuses if item)
        return tuple(snapshot_of(EC2_STATUS, _status(one), None, _instance(one["InstanceId"])) for one in found)
    name = "aws.ec2" if source == EC2_EVENT else "aws.health"
    documents = (document for _, document in objects(text_of(body)) if document.get("source") == name)
    events = [event for event in documents if isinstance(event.get("detail"), dict)]
    if not events:
        raise Rejected("no_framing", f"no event of {name}")
    if source == EC2_EVENT:
        return tuple(one for event in events for one in _of_ec2(event))
    mapped = mapping("health", hints.mappings)
    return tuple(one for event in events for one in _of_health(event, mapped))


def _instance(name: object) -> str | None:
    # The ARN of a Spot event has neither region nor account.
    found = _INSTANCE.fullmatch(text(name, 512) or "")
    return found[1] if found else None


def _of_ec2(event: _Event) -> Iterator[Observation]:
    """Yield a fault for a stop, a termination or a warning, and a health snapshot for a start."""
    kind, at = text(event.get("detail-type", event.get("detail_type")), 128) or "", instant(event.get("time"))
    fields = {name: value for name in _EC2_FIELDS if (value := text(event["detail"].get(name), 64))}
    instance_id = _instance(event["detail"].get("instance-id"))
    if instance_id and kind == _STATE_CHANGE and fields.get("state") == "running":
        yield snapshot_of(
            EC2_EVENT, ((code, NODE_COMPONENT, None) for code in _TABLE["states"].values()), at, instance_id
        )
    elif (found := _code_and_message(kind, instance_id, fields)) is not None:
        raw = f"{kind}: {', '.join(f'{name}={value}' for name, value in fields.items())}"
        yield fault_of(
            *(EC2_EVENT, found[0], NODE_COMPONENT, found[1], raw, at, instance_id),
            instance_id=instance_id,
            event_id=text(event.get("id"), 64),
            state=fields.get("state"),
            action=fields.get("instance-action"),
            capacity_reservation=fields.get("capacity-reservation-id"),
            ends_at=fields.get("end-date") or fields.get("instance-termination-time"),
        )


def _code_and_message(kind: str, instance_id: str | None, fields: Mapping[str, str]) -> tuple[str, str] | None:
    state, action, reservation = map(fields.get, ("state", "instance-action", "capacity-reservation-id"))
    if instance_id is None:
        # A warning about a reservation names no node.
        is_warning = reservation is not None and _RESERVATION.fullmatch(kind) is not None
        return ("cloud.capacity_ends", f"{kind}: {reservation}.") if is_warning else None
    if kind in _TABLE["warnings"]:
        code, message = _TABLE["warnings"][kind]
        return code, f"{message}{f' ({action})' if action else ''}."
    if kind == _STATE_CHANGE and state in _TABLE["states"]:
        return _TABLE["states"][state], f"EC2 reports the instance as {state}."
    return None


def _statuses(body: str) -> Iterator[Mapping[str, Any]]:
    for _, document in objects(body):
        listed = document.get("InstanceStatuses")
        if isinstance(listed, list):
            # An answer without instances is valid; the empty status marks the format as recognized.
            yield {}
            yield from (item for item in objects_in(listed) if _instance(item.get("InstanceId")))
        elif _instance(document.get("InstanceId")) and "InstanceStatus" in document:
            yield document


def _status(status: Mapping[str, Any]) -> Iterator[Judged]:
    """Judge the checks and the scheduled events of an instance. A check without a result shows nothing."""
    instance_id = _instance(status["InstanceId"])
    for name, (code, subject) in _TABLE["checks"].items():
        check = members(status.get(name))
        result = text(check.get("Status"), 32)
        if result in {"ok", "impaired"}:
            found = _impaired(code, subject, check, instance_id) if result == "impaired" else None
            yield code, NODE_COMPONENT, found
    if "Events" in status:
        yield from ((code, NODE_COMPONENT, None) for code in _TABLE["scheduled"].values())
        yield from ((fault.code, NODE_COMPONENT, fault) for fault in _planned(status["Events"], instance_id))


def _impaired(code: str, subject: str, check: Mapping[str, Any], instance_id: str | None) -> Fault:
    failed = [item for item in objects_in(check.get("Details")) if item.get("Status") == "failed"]
    since = next((at for item in failed if (at := instant(item.get("ImpairedSince")))), None)
    names = ", ".join(name for item in failed if (name := text(item.get("Name"), 64))) or "unnamed check"
    details = {"instance_id": instance_id, "failed": names, "impaired_since": to_text(since) if since else None}
    message, raw = f"EC2 reports {subject} as impaired ({names}).", f"Status: impaired, failed: {names}"
    return fault_of(EC2_STATUS, code, NODE_COMPONENT, message, raw, since, instance_id, **details)


def _planned(events: object, instance_id: str | None) -> Iterator[Fault]:
    for event in objects_in(events):
        kind, description = text(event.get("Code"), 64) or "", text(event.get("Description")) or ""
        code, starts_at = _TABLE["scheduled"].get(kind), instant(event.get("NotBefore"))
        if code is not None and not description.startswith(_DONE):
            message, raw = description or f"EC2 scheduled {kind}.", f"{kind}: {description}"
            details = {
                "instance_id": instance_id,
                "event_code": kind,
                "event_id": text(event.get("InstanceEventId"), 64),
            }
            details["not_before"] = to_text(starts_at) if starts_at else None
            yield fault_of(EC2_STATUS, code, NODE_COMPONENT, message, raw, None, instance_id, **details)


def _of_health(event: _Event, mapped: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    """Yield a fault or a clear for each affected instance; other resources yield nothing."""
    detail = event["detail"]
    kind, category = text(detail.get("eventTypeCode"), 128) or "", text(detail.get("eventTypeCategory"), 64) or ""
    by_type = next((row["code"] for row in mapped["types"] if re.fullmatch(row["pattern"], kind)), None)
    code = str(by_type or mapped["categories"].get(category, "cloud.health_issue"))
    kind = kind or "event without a type"
    texts = (text(item.get("latestDescription")) for item in objects_in(detail.get("eventDescription")))
    description = next(filter(None, texts), "").replace("\\n", " ")
    message, noticed_at, details = (
        f"{kind}: {description}" if description else kind,
        _noticed_at(event),
        _details(detail),
    )
    for item in objects_in(detail.get("affectedEntities")):
        instance_id = _instance(item.get("entityValue"))
        if instance_id is not None:
            at, stated = instant(item.get("lastUpdatedTime")) or noticed_at, {"instance_id": instance_id, **details}
            fault = fault_of(
                HEALTH_EVENT, code, NODE_COMPONENT, message, description or kind, at, instance_id, **stated
            )
            ended = item.get("status") in _ENDED or detail.get("statusCode") == "closed"
            yield to_clear(fault) if ended else fault


def _noticed_at(event: _Event) -> datetime | None:
    """Return the time at which AWS Health published the notice, or None if it is unknown.

    The time is `lastUpdatedTime` if the event has it, else `time`. If the `time` of a scheduled change equals the
    scheduled start, `time` does not state when the notice was published, and the result is None.
    """
    detail, at = event["detail"], instant(event.get("time"))
    updated = instant(detail.get("lastUpdatedTime"))
    is_schedule = detail.get("eventTypeCategory") == "scheduledChange"
    return updated or (None if is_schedule and at == instant(detail.get("startTime")) else at)


def _details(detail: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the attributes of a fault from the details of an event of AWS Health."""
    page, pages = (text(str(detail.get(name) or ""), 8) for name in ("page", "totalPages"))
    times = {name: instant(detail.get(member)) for name, member in _TABLE["health_times"].items()}
    return {
        **{name: text(detail.get(member), 512) for name, member in _TABLE["health"].items()},
        **{name: to_text(time) for name, time in times.items() if time},
        "event_type_code": text(detail.get("eventTypeCode"), 128) or "event without a type",
        "page": f"{page} of {pages}" if page and pages else None,
    }
