"""The CloudWatch Logs envelope: base64 and gzip around JSON, and the node's identity in the stream's name."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decoders.documents import MAX_JSON_BYTES, loads, text_of
from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Rejected

_INSTANCE = re.compile(r"(?:^|[/_])(i-[0-9a-f]{8,17})$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One message of a log, when CloudWatch took it in, and the instance that its stream is named after."""

    message: str
    at: datetime | None = None
    instance_id: str | None = None


def log_events(body: bytes) -> tuple[LogEvent, ...] | None:
    """Return the messages of a CloudWatch Logs subscription record, or None where a body is none.

    A control message has no messages. A subscription record that cannot be unpacked is `Rejected`.
    """
    if body[:64].lstrip()[:1] != b"{" or (b'"awslogs"' not in body[:256] and b'"logEvents"' not in body):
        return None
    try:
        outer = loads(text_of(body))
    except (ValueError, RecursionError):
        return None
    return _unwrapped(outer)


def _unwrapped(outer: object) -> tuple[LogEvent, ...] | None:
    record = _unpacked(outer["awslogs"]) if isinstance(outer, dict) and "awslogs" in outer else outer
    if not isinstance(record, dict) or not isinstance(record.get("logEvents"), list):
        return None
    named = _INSTANCE.search(str(record.get("logStream", "")))
    instance_id = named[1] if named else None
    return tuple(
        LogEvent(str(event["message"]), _instant(event.get("timestamp")), instance_id)
        for event in record["logEvents"]
        if isinstance(event, dict) and "message" in event
    )


def _unpacked(awslogs: object) -> object:
    data = awslogs.get("data") if isinstance(awslogs, dict) else None
    if not isinstance(data, str):
        raise Rejected("wrong_shape", "awslogs.data is not a string")
    try:
        packed = base64.b64decode(data, validate=True)
        inflate = zlib.decompressobj(wbits=31)
        text = inflate.decompress(packed, MAX_JSON_BYTES)
        if inflate.unconsumed_tail:
            raise Rejected("too_large", "the log envelope unpacks to more than is read")
        return loads(text_of(text))
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        raise Rejected("malformed_envelope", "awslogs.data is not base64 of gzip of JSON") from error


def _instant(milliseconds: object) -> datetime | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int):
        return None
    try:
        return from_milliseconds(milliseconds)
    except OverflowError:
        return None
