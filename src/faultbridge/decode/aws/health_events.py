"""Decodes `health-event`: AWS Health on EventBridge, one observation for each affected instance.

The mapping `health` translates event types and categories into fault codes.

Grammar: EventBridge events with `affectedEntities`; page numbers are strings. Times: RFC 1123 or RFC 3339; the times of
a scheduled change are in the future and become attributes. Units: none. Errors: `Rejected(no_framing)` if the body has
no event of aws.health. Source: the AWS Health event schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.decode.aws.ec2_events import CloudEvent, cloud_events, instance_of
from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import (
    Hints,
    attributes_of,
    evidence,
    members,
    objects_in,
    text,
    to_clear,
    truncate,
)
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Clear, Fault, Observation
from faultbridge.model.times import to_text

SOURCE = "health-event"
_ENDED = frozenset({"RESOLVED", "UNIMPAIRED"})


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault or a clear for each affected instance of each event."""
    events = tuple(cloud_events(body, "aws.health"))
    if not events:
        raise Rejected("no_framing", "no event of aws.health")
    mapped = mapping("health", hints.mappings)
    return tuple(observation for event in events for observation in _observations(event, mapped))


def _observations(event: CloudEvent, mapped: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    detail = event.detail
    kind = text(detail.get("eventTypeCode"), 128) or ""
    for item in objects_in(detail.get("affectedEntities")):
        instance_id = instance_of(item.get("entityValue"))
        if instance_id is None:
            continue
        at = instant(item.get("lastUpdatedTime")) or _noticed_at(event)
        fault = _fault(event, _code(kind, detail, mapped), instance_id, at)
        ended = item.get("status") in _ENDED or detail.get("statusCode") == "closed"
        yield to_clear(fault) if ended else fault


def _code(kind: str, detail: Mapping[str, Any], mapped: Mapping[str, Any]) -> str:
    by_type = next((row["code"] for row in mapped["types"] if re.fullmatch(row["pattern"], kind)), None)
    category = text(detail.get("eventTypeCategory"), 64) or ""
    return str(by_type or mapped["categories"].get(category, "cloud.health_issue"))


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


def _fault(event: CloudEvent, code: str, instance_id: str, at: datetime | None) -> Fault:
    detail = event.detail
    kind = text(detail.get("eventTypeCode"), 128) or "event without a type"
    description = next(
        (description for item in objects_in(detail.get("eventDescription")) if (description := _description(item))),
        None,
    )
    times = {name: instant(detail.get(name)) for name in ("startTime", "endTime")}
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=truncate(f"{kind}: {description}" if description else kind),
        observed_at=at,
        evidence=evidence(description or kind),
        attributes=attributes_of(
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


def _description(item: Mapping[str, Any]) -> str | None:
    description = text(members(item).get("latestDescription"))
    return description.replace("\\n", " ") if description else None


def _page(detail: Mapping[str, Any]) -> str | None:
    page, pages = (text(str(detail.get(name) or ""), 8) for name in ("page", "totalPages"))
    return f"{page} of {pages}" if page and pages else None
