"""Unpacks CloudWatch Logs records (base64 and gzip around JSON) and finds their instance id."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decoders.common.documents import MAX_JSON_BYTES, loads, text_of
from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Rejected

_INSTANCE = re.compile(r"(?:^|[/_])(i-[0-9a-f]{8,17})$")


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One log message, its collector's time and node, and the instance id in the name of its log stream."""

    message: str
    at: datetime | None = None
    instance_id: str | None = None
    node: str | None = None


def log_events(body: bytes) -> tuple[LogEvent, ...] | None:
    """Return the messages of a CloudWatch Logs subscription record; None for any other body.

    A control message yields no messages. A record that cannot be unpacked is `Rejected`.
    """
    if body[:64].lstrip()[:1] != b"{" or (b'"awslogs"' not in body[:256] and b'"logEvents"' not in body):
        return None
    try:
        envelope = loads(text_of(body))
    except (ValueError, RecursionError):
        return None
    return _unwrapped(envelope)


def _unwrapped(envelope: object) -> tuple[LogEvent, ...] | None:
    record = _unpacked(envelope["awslogs"]) if isinstance(envelope, dict) and "awslogs" in envelope else envelope
    if not isinstance(record, dict) or not isinstance(record.get("logEvents"), list):
        return None
    match = _INSTANCE.search(str(record.get("logStream", "")))
    instance_id = match[1] if match else None
    return tuple(
        LogEvent(str(event["message"]), _instant(event.get("timestamp")), instance_id)
        for event in record["logEvents"]
        if isinstance(event, dict) and "message" in event
    )


def _unpacked(awslogs: object) -> object:
    data = awslogs.get("data") if isinstance(awslogs, dict) else None
    if not isinstance(data, str):
        raise Rejected("wrong_shape", "awslogs.data is not a string; expected base64 of gzip of JSON")
    try:
        packed = base64.b64decode(data, validate=True)
        inflate = zlib.decompressobj(wbits=31)
        text = inflate.decompress(packed, MAX_JSON_BYTES)
        if inflate.unconsumed_tail:
            raise Rejected("too_large", f"awslogs.data unpacks to more than {MAX_JSON_BYTES} bytes")
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
