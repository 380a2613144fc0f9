"""Messages: encode raw records as text for the SQS queue; `decode_message` decodes this text.

A UTF-8 body is sent as text, any other as base64, and as gzip with base64 if only that fits. A body that does not fit
at all is stored in S3, and the message contains its key (the claim check pattern). This module does no I/O: the caller
stores and fetches bodies in S3.

Several records of one sender can share one message, because AWS charges for messages. The format of a shared message is
`{"v": 2, "records": [...]}`; each record is encoded as a message of its own. The queue states sender and time of
receipt once for all of them. The records of a shared message cause no more work than one record: all their bodies
together are at most as large as one body may be, and none is in the object store. A release that does not support
version 2 rejects a shared message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.records import SentValues
from faultbridge.domain.times import to_text
from faultbridge.storage.wire.body_encodings import MAX_UNPACKED_BYTES, PACK, unpacked_size

VERSION, SHARED_VERSION = 1, 2
"""Versions of a message with one record, and of one with several."""

MAX_SHARED_RECORDS = 10
OVERHEAD_BYTES = len('{"v":2,"records":[]}')
MAX_MESSAGE_BYTES = 240_000
"""Maximum size of one message: SQS accepts 262,144 bytes including the attributes that AWS adds."""

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Maximum size of a body in the object store. One invocation of ingest decodes as much of such bodies."""

MAX_LAST_SENT = 4
"""Maximum number of earlier digests in a message."""

DIGEST_LENGTH = 16

_MIN_COMPRESSED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Message:
    """One raw record as a queue message, with either a body or the S3 key of the body (`pointer`).

    - `sent_at` is the time of sending, by the sender's clock.
    - `received_at` is the time at which the queue first received the record. A function that sends the record again
      keeps this time.
    - `sender` is the original sender, if a function of Faultbridge sends the record again. In a message from any other
      sender, this field is ignored (`pipeline.normalize.trust`).
    - `values` is what a node agent states about the values in the body, such as their digest; None if nothing is
      stated.
    """

    record_id: str
    source: str
    cluster: str
    sent_at: datetime
    node: str | None = None
    instance_id: str | None = None
    boot_id: str | None = None
    received_at: datetime | None = None
    body: bytes | None = None
    pointer: str | None = None
    sender: str | None = None
    values: SentValues | None = None

    @property
    def group(self) -> str:
        """Return the message group of the SQS fair queue: cluster, and the node, else instance, else source.

        With a group for each node, the messages of one node do not delay those of other nodes.
        """
        return f"{self.cluster}/{self.node or self.instance_id or self.source}"


def raw_key(cluster: str, at: datetime, body: bytes) -> str:
    """Return the S3 key of a record's body. The key contains a content hash: a repeated write is harmless."""
    return f"raw/{cluster}/{at:%Y-%m-%d}/{_content_hash(body)}"


def is_body_of(key: str, body: bytes) -> bool:
    """Return whether an S3 key of `raw_key` contains the content hash of this body.

    The result is False if the body in S3 was replaced after the message was sent.
    """
    return key.rpartition("/")[2] == _content_hash(body)


def encode_message(message: Message, *, compact: bool = False) -> str:
    """Return a message as text in the simplest encoding that fits; raises ValueError if none fits.

    With `compact`, gzip is tried first for a body above 1 KB, to reduce the traffic of the node agent.
    """
    frame = {
        "v": VERSION,
        "record_id": message.record_id,
        "source": message.source,
        "cluster": message.cluster,
        "node": message.node,
        "sent_at": to_text(message.sent_at),
        "instance_id": message.instance_id,
        "boot_id": message.boot_id,
    }
    if message.received_at is not None:
        frame["received_at"] = to_text(message.received_at)
    if message.sender is not None:
        frame["sender"] = message.sender
    if message.values is not None:
        frame["last_sent"] = {digest: to_text(at) for digest, at in message.values.last_sent.items()}
        frame |= {"digest": message.values.digest} if message.values.digest else {}
    if message.pointer is not None:
        return _render({**frame, "pointer": message.pointer})
    body = message.body or b""
    packs = reversed(list(PACK.items())) if compact and len(body) > _MIN_COMPRESSED_BYTES else iter(PACK.items())
    for encoding, pack in packs:
        packed = pack(body) if len(body) <= MAX_UNPACKED_BYTES else None
        text = None if packed is None else _render({**frame, "encoding": encoding, "body": packed})
        if text is not None and len(text) <= MAX_MESSAGE_BYTES:
            return text
    raise ValueError(f"the body does not fit into a message: {len(body)} bytes; store it in S3 and send a pointer")


def fits(message: Message) -> bool:
    """Return whether a queue message is small enough to contain its body without an S3 object."""
    try:
        encode_message(message)
    except ValueError:
        return False
    return True


def join_records(texts: Sequence[str]) -> str:
    """Return one text for several encoded messages; a single message is returned unchanged."""
    return texts[0] if len(texts) == 1 else f'{{"v":{SHARED_VERSION},"records":[{",".join(texts)}]}}'


def unpacked_bytes(text: str) -> int | None:
    """Return the body size of an encoded message in a shared message; None if it may not be in one.

    The size is that of the unpacked gzip body, or of the text in any other encoding. The result is None if the body is
    in the object store, if the text is not valid JSON, or if the size of a gzip body cannot be read.
    """
    try:
        return unpacked_size(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _content_hash(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _render(frame: Mapping[str, Any]) -> str:
    # ASCII only: SQS refuses some characters, and this way the number of characters is the number of bytes.
    return json.dumps(frame, separators=(",", ":"))
