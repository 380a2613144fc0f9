"""Shared messages: several records of one sender in one message of the queue, because AWS charges for messages.

The format is `{"v": 2, "records": [...]}`; each record is encoded as a message of its own (`message`). The queue states
sender and time of receipt once for all of them. Together the records cause no more work than one: all their bodies are
at most as large as one body may be, and none is in the object store. A release that does not support version 2 rejects
such a message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from faultbridge.storage.wire.body_encodings import MAX_UNPACKED_BYTES
from faultbridge.storage.wire.message import MAX_SHARED_RECORDS, SHARED_VERSION

OVERHEAD_BYTES = len('{"v":2,"records":[]}')

_SIZE_CHARACTERS, _SIZE_BYTES = 8, 4  # gzip ends with the size of its content; base64 has 4 characters for 3 bytes


def join_records(texts: Sequence[str]) -> str:
    """Return one text for encoded messages; a single message stays as it is."""
    return texts[0] if len(texts) == 1 else f'{{"v":{SHARED_VERSION},"records":[{",".join(texts)}]}}'


def unpacked_bytes(text: str) -> int | None:
    """Return the unpacked body size of an encoded message; None if it must not be part of a shared message."""
    try:
        return _unpacked_bytes(json.loads(text))
    except (ValueError, RecursionError):
        return None


def split_records(text: str) -> tuple[str, ...]:
    """Return the messages in a text: those of a valid shared message, else the text itself.

    `decode_message` rejects a shared message that is not valid, and one within another.
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


def _may_share(records: Sequence[object]) -> bool:
    if len(records) > MAX_SHARED_RECORDS:
        return False
    sizes = [_unpacked_bytes(record) for record in records]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and sum(known) <= MAX_UNPACKED_BYTES


def _unpacked_bytes(frame: object) -> int | None:
    """Return the unpacked size of a record's body, as the body states it; None if it is in the object store.

    A gzip body that states a wrong size cannot be unpacked. A record that is no JSON object counts 0 bytes; it is
    rejected later, alone.
    """
    if not isinstance(frame, dict):
        return 0
    if "pointer" in frame:
        return None
    body = str(frame.get("body", ""))
    if frame.get("encoding") != "gzip+base64":
        return len(body)
    return int.from_bytes(base64.b64decode(body[-_SIZE_CHARACTERS:], validate=True)[-_SIZE_BYTES:], "little")
