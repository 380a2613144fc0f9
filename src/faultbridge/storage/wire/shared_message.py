"""Shared messages: several records of one sender in one message of the queue, because AWS charges for messages.

The format is `{"v": 2, "records": [...]}`; each record is encoded as a message of its own (`message`). The queue states
sender and time of receipt once for all of them. Together they cause no more work than one message: their bodies are as
small as one, and none of them is in the object store. An older service rejects such a message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from faultbridge.storage.wire.message import MAX_UNPACKED_BYTES

SHARED_VERSION = 2
MAX_SHARED_RECORDS = 10
OVERHEAD_BYTES = len('{"v":2,"records":[]}')

_SIZE_CHARACTERS, _SIZE_BYTES = 8, 4  # gzip ends with the size of its content; base64 has 4 characters for 3 bytes


def join_records(texts: Sequence[str]) -> str:
    """Return one text for encoded messages; a single message stays as it is."""
    return texts[0] if len(texts) == 1 else f'{{"v":{SHARED_VERSION},"records":[{",".join(texts)}]}}'


def can_share(texts: Sequence[str]) -> bool:
    """Return whether encoded messages may be the records of one message."""
    try:
        return _may_share([json.loads(text) for text in texts])
    except (ValueError, RecursionError):
        return False


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


def _may_share(records: Sequence[Any]) -> bool:
    frames = [record for record in records if isinstance(record, dict)]
    return (
        len(records) <= MAX_SHARED_RECORDS
        and not any("pointer" in frame for frame in frames)
        and sum(map(_unpacked_bytes, frames)) <= MAX_UNPACKED_BYTES
    )


def _unpacked_bytes(frame: Mapping[str, Any]) -> int:
    """Return the size of the body as it states it; a gzip body that states a wrong size cannot be unpacked."""
    body = str(frame.get("body", ""))
    if frame.get("encoding") != "gzip+base64":
        return len(body)
    return int.from_bytes(base64.b64decode(body[-_SIZE_CHARACTERS:], validate=True)[-_SIZE_BYTES:], "little")
