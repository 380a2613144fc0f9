"""Cloud events: what EventBridge puts on the queue as it is, told from our own messages and read as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected

# By the envelope's source; of a source that tells of more, only this beginning of the detail-type is ours.
SOURCES: Mapping[str, tuple[str, str]] = {
    "aws.sagemaker": ("hyperpod-event", "SageMaker HyperPod "),
    "aws.ec2": ("ec2-event", ""),
    "aws.health": ("health-event", ""),
}


def is_cloud_event(frame: Mapping[str, Any]) -> bool:
    """Tell whether an object is EventBridge's envelope and no message of ours."""
    return "v" not in frame and "detail-type" in frame and isinstance(frame.get("detail"), dict)


def fields_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return source, record id and time of an event; Rejected when it is none that a rule of ours asks for."""
    told = SOURCES.get(str(frame.get("source")))
    if told is None or not str(frame["detail-type"]).startswith(told[1]):
        raise Rejected("unknown_source", f"no decoder for {frame.get('source')!s:.64} {frame['detail-type']!s:.128}")
    try:
        at = from_text(str(frame["time"]))
    except (KeyError, ValueError, OverflowError):
        raise Rejected("bad_time", "the event has no time") from None
    return {"source": told[0], "record_id": str(frame.get("id")), "sent_at": at}
