"""Cloud events: EventBridge events of AWS services that arrive unchanged on the raw record queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain import names
from faultbridge.domain.records import JOB_REPORT
from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected

# The source of the event, our source name, and the prefix of the detail types that have a decoder.
SOURCES: Mapping[str, tuple[str, str]] = {
    "aws.sagemaker": ("hyperpod-event", "SageMaker HyperPod "),
    "aws.ec2": ("ec2-event", ""),
    "aws.health": ("health-event", ""),
}

JOB_REPORT_TYPE = "Faultbridge Job Report"
"""The detail type of reports of jobs, which a scheduler puts on the event bus with a source of its own."""


def is_cloud_event(frame: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is an EventBridge event and not a message of our own format."""
    return "v" not in frame and "detail-type" in frame and isinstance(frame.get("detail"), dict)


def fields_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return source, record id and time of an event; raises Rejected for an event without a decoder.

    For a job report, the fields include its cluster.
    """
    if frame["detail-type"] == JOB_REPORT_TYPE:
        cluster = {"cluster": names.cluster_name(str(frame["detail"].get("cluster")))}
        return {"source": JOB_REPORT, "record_id": str(frame.get("id")), "sent_at": _time(frame)} | cluster
    name, detail_type_prefix = SOURCES.get(str(frame.get("source")), (None, ""))
    if name is None or not str(frame["detail-type"]).startswith(detail_type_prefix):
        raise Rejected("unknown_source", f"no decoder for {frame.get('source')!s:.64} {frame['detail-type']!s:.128}")
    return {"source": name, "record_id": str(frame.get("id")), "sent_at": _time(frame)}


def _time(frame: Mapping[str, Any]) -> datetime:
    try:
        return from_text(str(frame["time"]))
    except (KeyError, ValueError, OverflowError):
        raise Rejected("bad_time", "the event has no valid `time`; expected RFC 3339 with a time zone") from None
