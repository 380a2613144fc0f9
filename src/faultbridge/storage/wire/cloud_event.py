"""Cloud events: EventBridge events of AWS services that arrive unchanged on the raw record queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected

# The source of the event, our source name, and the prefix of the detail types that have a decoder.
SOURCES: Mapping[str, tuple[str, str]] = {
    "aws.sagemaker": ("hyperpod-event", "SageMaker HyperPod "),
    "aws.ec2": ("ec2-event", ""),
    "aws.health": ("health-event", ""),
}


def is_cloud_event(frame: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is an EventBridge event and not a message of our own format."""
    return "v" not in frame and "detail-type" in frame and isinstance(frame.get("detail"), dict)


def fields_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return source, record id and time of an event; raises Rejected for an event without a decoder."""
    name, detail_type_prefix = SOURCES.get(str(frame.get("source")), (None, ""))
    if name is None or not str(frame["detail-type"]).startswith(detail_type_prefix):
        raise Rejected("unknown_source", f"no decoder for {frame.get('source')!s:.64} {frame['detail-type']!s:.128}")
    try:
        at = from_text(str(frame["time"]))
    except (KeyError, ValueError, OverflowError):
        raise Rejected("bad_time", "the event has no valid `time`; expected RFC 3339 with a time zone") from None
    return {"source": name, "record_id": str(frame.get("id")), "sent_at": at}
