"""`health-event`: AWS Health on EventBridge, one observation for each affected instance.

Grammar: EventBridge's envelope; pages come as strings, entities in `affectedEntities`; which type of event is which
fault is the mapping `health`. Times: RFC 1123 or RFC 3339; those of a schedule lie ahead and are no time of
observation. Units: none. Errors: `Rejected(no_framing)` where no event of aws.health is there. Source: AWS Health's
schema of its events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Decoder, Hints, cut, evidence, over
from faultbridge.decoders.cloud_events import CloudEvent, cloud_events, instance_of
from faultbridge.decoders.fields import members, objects_in, text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Clear, Fault, Observation
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected

SOURCE = "health-event"
_OVER = frozenset({"RESOLVED", "UNIMPAIRED"})


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read each instance that each event affects; an event about something else than an instance says nothing here."""
    events = tuple(cloud_events(body, "aws.health"))
    if not events:
        raise Rejected("no_framing", "no event of aws.health in it")
    known = mapping("health", hints.mappings)
    return tuple(observation for event in events for observation in _observations(event, known))


def recognize(body: bytes) -> bool:
    """Tell whether the event bus's envelope names AWS Health."""
    return b'"aws.health"' in body and b'"detail-type"' in body


def _observations(event: CloudEvent, known: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    detail = event.detail
    kind = text(detail.get("eventTypeCode"), 128) or ""
    for one in objects_in(detail.get("affectedEntities")):
        instance_id = instance_of(one.get("entityValue"))
        if instance_id is None:
            continue
        at = instant(one.get("lastUpdatedTime")) or _noticed_at(event)
        fault = _fault(event, _code(kind, detail, known), instance_id, at)
        done = one.get("status") in _OVER or detail.get("statusCode") == "closed"
        yield over(fault) if done else fault


def _code(kind: str, detail: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    by_type = next((row["code"] for row in known["types"] if re.fullmatch(row["pattern"], kind)), None)
    category = text(detail.get("eventTypeCategory"), 64) or ""
    return str(by_type or known["categories"].get(category, "cloud.health_issue"))


def _noticed_at(event: CloudEvent) -> datetime | None:
    """Tell when the notice was given: the envelope of a scheduled change may carry the time of the change."""
    updated = instant(event.detail.get("lastUpdatedTime"))
    if updated is not None:
        return updated
    is_schedule = event.detail.get("eventTypeCategory") == "scheduledChange"
    return None if is_schedule and event.at == instant(event.detail.get("startTime")) else event.at


def _fault(event: CloudEvent, code: str, instance_id: str, at: datetime | None) -> Fault:
    detail = event.detail
    kind = text(detail.get("eventTypeCode"), 128) or "an event without a type"
    told_in = next((said for one in objects_in(detail.get("eventDescription")) if (said := _description(one))), None)
    times = {name: instant(detail.get(name)) for name in ("startTime", "endTime")}
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=cut(f"{kind}: {told_in}" if told_in else kind),
        observed_at=at,
        evidence=evidence(told_in or kind),
        attributes=told(
            instance_id=instance_id,
            event_type_code=kind,
            event_type_category=text(detail.get("eventTypeCategory"), 64),
            event_arn=text(detail.get("eventArn"), 512),
            communication_id=text(detail.get("communicationId"), 128),
            page=_page(detail),
            actionability=text(detail.get("actionability"), 64),
            start_time=to_text(times["startTime"]) if times["startTime"] else None,
            end_time=to_text(times["endTime"]) if times["endTime"] else None,
        ),
        node=instance_id,
    )


def _description(one: Mapping[str, Any]) -> str | None:
    said = text(members(one).get("latestDescription"))
    return said.replace("\\n", " ") if said else None


def _page(detail: Mapping[str, Any]) -> str | None:
    page, pages = (text(str(detail.get(name) or ""), 8) for name in ("page", "totalPages"))
    return f"{page} of {pages}" if page and pages else None


DECODER = Decoder(
    name=SOURCE,
    summary="AWS Health on EventBridge: retirements, maintenance and issues of instances",
    example='{"source": "aws.health", "detail-type": "AWS Health Event", "time": "2026-02-03T04:05:06Z", "detail": '
    '{"eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "eventTypeCategory": "scheduledChange", '
    '"startTime": "Tue, 17 Feb 2026 22:00:00 GMT", "statusCode": "upcoming", "page": "1", "totalPages": "1", '
    '"affectedEntities": [{"entityValue": "i-0123456789abcdef0"}]}}',
    recognize=recognize,
    decode=decode,
)
