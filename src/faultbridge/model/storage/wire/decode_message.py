"""Decode message: converts a text from the SQS queue to messages, each with one raw record.

The text is a message with one or several records, or an EventBridge event of an AWS service, which arrives unchanged on
the same queue. This module does no I/O: the caller fetches a body that is stored in S3. An invalid message raises
Rejected with a stable reason.
"""

from __future__ import annotations

import binascii
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from faultbridge.model import names
from faultbridge.model.errors import Rejected
from faultbridge.model.records import JOB_REPORT, SentValues
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.wire.message import (
    DIGEST_LENGTH,
    MAX_LAST_SENT,
    MAX_SHARED_RECORDS,
    MAX_UNPACKED_BYTES,
    SHARED_VERSION,
    UNPACK,
    VERSION,
    Message,
    unpacked_size,
)
from faultbridge.model.times import from_text

# The source of the event, our source name, and the prefix of the detail types that have a decoder.
SOURCES: Mapping[str, tuple[str, str]] = {
    "aws.sagemaker": ("hyperpod-event", "SageMaker HyperPod "),
    "aws.ec2": ("ec2-event", ""),
    "aws.health": ("health-event", ""),
}

JOB_REPORT_TYPE = "Faultbridge Job Report"
"""The detail type of reports of jobs, which a scheduler puts on the event bus with a source of its own."""

_MAX_BOOT_ID = 128
_MAX_SENDER = 200
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}")
_SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_POINTER = re.compile(r"raw/[A-Za-z0-9_-]{1,100}/\d{4}-\d{2}-\d{2}/[0-9a-f]{64}")

T = TypeVar("T")


def split_records(text: str) -> tuple[str, ...]:
    """Return the encoded messages in the text of a queue message, one for each record.

    A shared message contains several records. Any text that is no valid shared message is returned unchanged, as the
    only message. `decode_message` then rejects an invalid shared message, and a shared message inside another.
    """
    if '"records"' not in text:
        return (text,)
    try:
        frame = json.loads(text)
        records = frame["records"] if isinstance(frame, dict) and frame.get("v") == SHARED_VERSION else None
        if isinstance(records, list) and records and _may_share(records):
            return tuple(json.dumps(record, separators=(",", ":")) for record in records)
    except (ValueError, LookupError, RecursionError):
        return (text,)
    return (text,)


def decode_message(text: str) -> Message:
    """Decode the message in a text; an invalid message raises Rejected with a stable reason."""
    frame = _frame(text)
    if is_cloud_event(frame):
        event = _event_fields(frame)
        record_id = names.record_id(event.pop("record_id"))
        cluster = event.pop("cluster", NO_CLUSTER)
        return Message(record_id=record_id, cluster=cluster, body=text.encode(errors="surrogatepass"), **event)
    return Message(
        record_id=names.record_id(_text(frame, "record_id")),
        source=_source(_text(frame, "source")),
        cluster=_cluster(_text(frame, "cluster")),
        node=_optional(frame, "node", names.node_name),
        instance_id=_optional(frame, "instance_id", names.instance_id),
        boot_id=_optional(frame, "boot_id", _boot),
        sent_at=_instant(_text(frame, "sent_at"), "sent_at"),
        received_at=_optional(frame, "received_at", lambda text: _instant(text, "received_at")),
        body=None if "pointer" in frame else _body(frame),
        pointer=_pointer(frame) if "pointer" in frame else None,
        sender=_optional(frame, "sender", lambda text: text[:_MAX_SENDER]),
        values=_values(frame) if frame.keys() & {"digest", "last_sent"} else None,
    )


def is_cloud_event(frame: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is an EventBridge event and not a message of Faultbridge's format."""
    return "v" not in frame and "detail-type" in frame and isinstance(frame.get("detail"), dict)


def _event_fields(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return source, record id and time of an EventBridge event.

    An event without a decoder raises Rejected. For a job report, the fields include its cluster.
    """
    if frame["detail-type"] == JOB_REPORT_TYPE:
        cluster = {"cluster": names.cluster_name(str(frame["detail"].get("cluster")))}
        return {"source": JOB_REPORT, "record_id": str(frame.get("id")), "sent_at": _event_time(frame)} | cluster
    name, detail_type_prefix = SOURCES.get(str(frame.get("source")), (None, ""))
    if name is None or not str(frame["detail-type"]).startswith(detail_type_prefix):
        raise Rejected("unknown_source", f"no decoder for {frame.get('source')!s:.64} {frame['detail-type']!s:.128}")
    return {"source": name, "record_id": str(frame.get("id")), "sent_at": _event_time(frame)}


def _frame(text: str) -> Mapping[str, Any]:
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        raise Rejected("not_a_record", "the message is not valid JSON") from None
    if isinstance(frame, dict) and is_cloud_event(frame):
        return frame
    if not isinstance(frame, dict) or "v" not in frame:
        raise Rejected("not_a_record", "the message is not a JSON object with a version `v`")
    if frame["v"] == SHARED_VERSION:
        allowed = f"1 to {MAX_SHARED_RECORDS} `records`, {MAX_UNPACKED_BYTES} bytes together, none with a `pointer`"
        raise Rejected("bad_shared_message", f"invalid message with several records; allowed: {allowed}")
    if frame["v"] != VERSION:
        supported = f"supported: {VERSION}, {SHARED_VERSION}"
        raise Rejected("unsupported_version", f"message version {str(frame['v'])[:20]}; {supported}")
    return frame


def _text(frame: Mapping[str, Any], field: str) -> str:
    value = frame.get(field)
    if not isinstance(value, str) or not value:
        raise Rejected("not_a_record", f"`{field}` is missing or not a text")
    return value


def _optional(frame: Mapping[str, Any], field: str, read: Callable[[str], T]) -> T | None:
    return None if frame.get(field) in (None, "") else read(_text(frame, field))


def _source(text: str) -> str:
    if _SOURCE.fullmatch(text) is None:
        raise Rejected(
            "unknown_source",
            f"invalid source name: {text[:80]!r}; allowed: lower-case letters, digits and -, at most 64",
        )
    return text


def _cluster(text: str) -> str:
    return text if text == NO_CLUSTER else names.cluster_name(text)


def _boot(text: str) -> str:
    if len(text) > _MAX_BOOT_ID or not text.isprintable():
        raise Rejected("bad_boot_id", "invalid `boot_id`; allowed: printable text of at most 128 characters")
    return text


def _instant(text: str, field: str) -> datetime:
    try:
        return from_text(text)
    except (ValueError, OverflowError):
        raise Rejected(
            "bad_time", f"invalid time in `{field}`: {text[:40]!r}; expected RFC 3339 with a time zone"
        ) from None


def _digest(text: str) -> str:
    if _DIGEST.fullmatch(text) is None:
        allowed = f"{DIGEST_LENGTH} hexadecimal digits in lower case"
        raise Rejected("bad_digest", f"invalid digest: {text[:40]!r}; allowed: {allowed}")
    return text


def _values(frame: Mapping[str, Any]) -> SentValues:
    digest, last_sent = _optional(frame, "digest", _digest), frame.get("last_sent", {})
    if not isinstance(last_sent, dict) or len(last_sent) > MAX_LAST_SENT:
        raise Rejected("bad_digest", f"invalid `last_sent`; allowed: at most {MAX_LAST_SENT} digests with their times")
    return SentValues(digest, {_digest(one): _instant(str(at), "last_sent") for one, at in last_sent.items()})


def _pointer(frame: Mapping[str, Any]) -> str:
    # A message must not choose which S3 objects we read: only raw records of its own cluster are allowed.
    pointer = _text(frame, "pointer")
    if _POINTER.fullmatch(pointer) is None or not pointer.startswith(f"raw/{frame['cluster']}/"):
        raise Rejected("bad_pointer", "invalid `pointer`; allowed: the key of a raw record of this cluster")
    return pointer


def _body(frame: Mapping[str, Any]) -> bytes:
    unpack = UNPACK.get(str(frame.get("encoding", "text")))
    if unpack is None:
        raise Rejected(
            "unsupported_encoding",
            f"unsupported encoding: {str(frame['encoding'])[:40]!r}; allowed: {', '.join(UNPACK)}",
        )
    body = frame.get("body")
    if not isinstance(body, str):
        raise Rejected("not_a_record", "both `body` and `pointer` are missing; send one of them")
    try:
        return unpack(body)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Rejected("bad_body", f"the body is not valid {frame.get('encoding', 'text')}: {error}") from None


def _event_time(frame: Mapping[str, Any]) -> datetime:
    try:
        return from_text(str(frame["time"]))
    except (KeyError, ValueError, OverflowError):
        raise Rejected("bad_time", "the event has no valid `time`; expected RFC 3339 with a time zone") from None


def _may_share(records: Sequence[object]) -> bool:
    if len(records) > MAX_SHARED_RECORDS:
        return False
    sizes = [unpacked_size(record) for record in records]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and sum(known) <= MAX_UNPACKED_BYTES
