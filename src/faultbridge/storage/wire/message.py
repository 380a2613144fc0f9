"""Messages: encode a raw record as text for the SQS queue, and decode it.

A UTF-8 body is sent as text, any other as base64, and as gzip with base64 if only that fits. A body that does not fit
at all is stored in S3, and the message contains its key (the claim check pattern). This module does no I/O: the caller
stores and fetches such bodies.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.domain import names
from faultbridge.domain.records import SentValues
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Rejected
from faultbridge.storage.keys import NO_CLUSTER
from faultbridge.storage.wire.body_encodings import MAX_UNPACKED_BYTES, PACK, UNPACK
from faultbridge.storage.wire.cloud_event import fields_of, is_cloud_event

VERSION, SHARED_VERSION = 1, 2
"""Versions of a message with one record, and of one with several (see `shared_message`)."""

MAX_SHARED_RECORDS = 10
MAX_MESSAGE_BYTES = 240_000
"""Maximum size of one message: SQS accepts 262,144 bytes including the attributes that AWS adds."""

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Maximum size of a body in the object store. One invocation of ingest decodes as much of such bodies."""

MAX_LAST_SENT = 4
"""Maximum number of earlier digests in a message."""

DIGEST_LENGTH = 16

_MAX_BOOT_ID = 128
_MAX_SENDER = 200
_MIN_COMPRESSED_BYTES = 1024
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}")
_SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_POINTER = re.compile(r"raw/[A-Za-z0-9_-]{1,100}/\d{4}-\d{2}-\d{2}/[0-9a-f]{64}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Message:
    """One raw record as a queue message, with either a body or the S3 key of the body (`pointer`).

    `sent_at` is the time of the sender's clock. `received_at` is the first receipt by the queue; a function that sends
    a record again keeps it. `sender` is the original sender; it is accepted only from our own functions (see
    `pipeline.normalize.trust`). `values` is what a node agent states about the values in the body.
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
        """Return the message group of the SQS fair queue: one group per node, so that no node delays another."""
        return f"{self.cluster}/{self.node or self.instance_id or self.source}"


def raw_key(cluster: str, at: datetime, body: bytes) -> str:
    """Return the S3 key of a body; it contains a content hash, so a repeated write is harmless."""
    return f"raw/{cluster}/{at:%Y-%m-%d}/{hashlib.sha256(body).hexdigest()}"


def encode_message(message: Message, *, compact: bool = False) -> str:
    """Return a message as text in the simplest encoding that fits; raises ValueError when none fits.

    With `compact` a body above 1 KB is gzipped in any case, to reduce the traffic of the node agent.
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
    """Return whether a message can contain its body, so that no S3 object is needed."""
    try:
        encode_message(message)
    except ValueError:
        return False
    return True


def decode_message(text: str) -> Message:
    """Return the message in a text; raises Rejected with a stable reason for an invalid one."""
    frame = _frame(text)
    if is_cloud_event(frame):
        event = fields_of(frame)
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


def _render(frame: Mapping[str, Any]) -> str:
    # ASCII only: SQS refuses some characters, and this way the number of characters is the number of bytes.
    return json.dumps(frame, separators=(",", ":"))
