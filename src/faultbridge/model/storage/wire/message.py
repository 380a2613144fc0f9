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

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from faultbridge.model.errors import Rejected
from faultbridge.model.records import SentValues
from faultbridge.model.times import to_text

# Body encodings: functions that encode the bytes of a record as text in a message, and decode them.
#
# `PACK` and `UNPACK` map the name of each encoding to its function; the simplest encoding comes first. A function of
# `PACK` returns None if it cannot encode the bytes. A function of `UNPACK` raises ValueError or zlib.error if it cannot
# decode the text, and Rejected `too_large` if the result is too large.

# A body in a message is smaller than one in the object store, because it bounds the work that a message can cause:
# a second of processor time at most (`tests/bench/hostile_messages.py`). `nvidia-smi -q -x` of eight GPUs has 0.2 MB.
MAX_UNPACKED_BYTES = 384 * 1024


def _unzip(text: str) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    body = inflate.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED_BYTES)
    if inflate.unconsumed_tail:
        raise Rejected("too_large", f"the decompressed body is too large; allowed: {MAX_UNPACKED_BYTES} bytes")
    if not inflate.eof:
        raise ValueError("the gzip data is truncated")
    if inflate.unused_data:
        raise ValueError("there is more after the gzip data")
    return body


def _plain(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


PACK: Mapping[str, Callable[[bytes], str | None]] = {
    "text": _plain,
    "base64": lambda body: base64.b64encode(body).decode(),
    "gzip+base64": lambda body: base64.b64encode(gzip.compress(body, mtime=0)).decode(),
}
UNPACK: Mapping[str, Callable[[str], bytes]] = {
    "text": str.encode,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "gzip+base64": _unzip,
}

_SIZE_CHARACTERS, _SIZE_BYTES = 8, 4  # gzip ends with the size of its content; base64 has 4 characters for 3 bytes


def unpacked_size(frame: object) -> int | None:
    """Return the size of a record's body; `frame` is the record, decoded from JSON.

    - For a gzip body: the unpacked size that the gzip data states at its end. If this size is wrong, unpacking fails.
    - For any other body: the length of its text.
    - None if the body is in the object store.
    - 0 if the record is not a JSON object; decoding then rejects it.

    Raises ValueError if the end of a gzip body is not base64.
    """
    if not isinstance(frame, dict):
        return 0
    if "pointer" in frame:
        return None
    body = str(frame.get("body", ""))
    if frame.get("encoding") != "gzip+base64":
        return len(body)
    return int.from_bytes(base64.b64decode(body[-_SIZE_CHARACTERS:], validate=True)[-_SIZE_BYTES:], "little")


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


def _render(frame: Mapping[str, object]) -> str:
    # ASCII only: SQS refuses some characters, and this way the number of characters is the number of bytes.
    return json.dumps(frame, separators=(",", ":"))
