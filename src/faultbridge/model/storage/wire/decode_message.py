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
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

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

_MAY_BE_EMPTY = frozenset({"body", "encoding", "pointer"})
_NAMED = re.compile(r"(?:field `|\$\.)(\w+)")
"""The name of the field in an error of msgspec."""


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


class _Frame(Struct, frozen=True):
    record_id: str
    source: str
    cluster: str
    sent_at: str
    node: str | None = None
    instance_id: str | None = None
    boot_id: str | None = None
    received_at: str | None = None
    sender: str | None = None
    digest: str | None = None
    last_sent: object = UNSET
    encoding: object = "text"
    body: object = None
    pointer: str | UnsetType = UNSET


class _Detail(Struct, frozen=True):
    cluster: object = None


class _CloudEvent(Struct, frozen=True, rename="kebab"):
    detail_type: object
    detail: _Detail
    source: object = None
    id: object = None
    time: object = None


def decode_message(text: str) -> Message:
    """Decode the message in a text; an invalid message raises Rejected with a stable reason."""
    frame = _frame(text)
    if isinstance(frame, _CloudEvent):
        return _of_event(frame, text)
    stated = frame.digest is not None or frame.last_sent is not UNSET
    return Message(
        record_id=names.record_id(frame.record_id),
        source=_source(frame.source),
        cluster=_cluster(frame.cluster),
        node=names.node_name(frame.node) if frame.node else None,
        instance_id=names.instance_id(frame.instance_id) if frame.instance_id else None,
        boot_id=_boot(frame.boot_id) if frame.boot_id else None,
        sent_at=_instant(frame.sent_at, "sent_at"),
        received_at=_instant(frame.received_at, "received_at") if frame.received_at else None,
        body=_body(frame) if frame.pointer is UNSET else None,
        pointer=None if frame.pointer is UNSET else _pointer(frame.pointer, frame.cluster),
        sender=frame.sender[:_MAX_SENDER] if frame.sender else None,
        values=_values(frame) if stated else None,
    )


def is_cloud_event(frame: Mapping[str, object]) -> bool:
    """Return whether a JSON object is an EventBridge event and not a message of Faultbridge's format."""
    return "v" not in frame and "detail-type" in frame and isinstance(frame.get("detail"), dict)


def _of_event(event: _CloudEvent, text: str) -> Message:
    """Return an EventBridge event as a message; one without a decoder raises Rejected."""
    cluster, detail_type = NO_CLUSTER, str(event.detail_type)
    if detail_type == JOB_REPORT_TYPE:
        name, cluster = JOB_REPORT, names.cluster_name(str(event.detail.cluster))
    else:
        name, prefix = SOURCES.get(str(event.source), ("", ""))
        if not name or not detail_type.startswith(prefix):
            raise Rejected("unknown_source", f"no decoder for {event.source!s:.64} {detail_type:.128}")
    try:
        at = from_text(str(event.time))
    except (ValueError, OverflowError):
        raise Rejected("bad_time", "the event has no valid `time`; expected RFC 3339 with a time zone") from None
    body = text.encode(errors="surrogatepass")
    return Message(names.record_id(str(event.id)), name, cluster, at, body=body)


def _frame(text: str) -> _Frame | _CloudEvent:
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        raise Rejected("not_a_record", "the message is not valid JSON") from None
    if isinstance(frame, dict) and is_cloud_event(frame):
        return msgspec.convert(frame, _CloudEvent)
    if not isinstance(frame, dict) or "v" not in frame:
        raise Rejected("not_a_record", "the message is not a JSON object with a version `v`")
    if frame["v"] == SHARED_VERSION:
        allowed = f"1 to {MAX_SHARED_RECORDS} `records`, {MAX_UNPACKED_BYTES} bytes together, none with a `pointer`"
        raise Rejected("bad_shared_message", f"invalid message with several records; allowed: {allowed}")
    if frame["v"] != VERSION:
        supported = f"supported: {VERSION}, {SHARED_VERSION}"
        raise Rejected("unsupported_version", f"message version {str(frame['v'])[:20]}; {supported}")
    try:
        return msgspec.convert({name: one for name, one in frame.items() if one != "" or name in _MAY_BE_EMPTY}, _Frame)
    except msgspec.ValidationError as error:
        named = _NAMED.search(str(error))
        raise Rejected("not_a_record", f"`{named[1] if named else '?'}` is missing or not a text") from None


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


def _values(frame: _Frame) -> SentValues:
    last_sent = {} if frame.last_sent is UNSET else frame.last_sent
    if not isinstance(last_sent, dict) or len(last_sent) > MAX_LAST_SENT:
        raise Rejected("bad_digest", f"invalid `last_sent`; allowed: at most {MAX_LAST_SENT} digests with their times")
    sent = {_digest(one): _instant(str(at), "last_sent") for one, at in last_sent.items()}
    return SentValues(_digest(frame.digest) if frame.digest else None, sent)


def _pointer(pointer: str, cluster: str) -> str:
    # A message must not choose which S3 objects we read: only raw records of its own cluster are allowed.
    if _POINTER.fullmatch(pointer) is None or not pointer.startswith(f"raw/{cluster}/"):
        raise Rejected("bad_pointer", "invalid `pointer`; allowed: the key of a raw record of this cluster")
    return pointer


def _body(frame: _Frame) -> bytes:
    unpack = UNPACK.get(str(frame.encoding))
    if unpack is None:
        raise Rejected(
            "unsupported_encoding",
            f"unsupported encoding: {str(frame.encoding)[:40]!r}; allowed: {', '.join(UNPACK)}",
        )
    if not isinstance(frame.body, str):
        raise Rejected("not_a_record", "both `body` and `pointer` are missing; send one of them")
    try:
        return unpack(frame.body)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Rejected("bad_body", f"the body is not valid {frame.encoding}: {error}") from None


def _may_share(records: Sequence[object]) -> bool:
    if len(records) > MAX_SHARED_RECORDS:
        return False
    sizes = [unpacked_size(record) for record in records]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and sum(known) <= MAX_UNPACKED_BYTES
