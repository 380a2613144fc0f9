"""Messages: how a raw record travels on the queue, as text, and back.

A body is carried as text where it is UTF-8, else as base64, gzipped when that is what makes it fit. A body that
fits in no way lies in the object store, and the message carries its key (a claim check). All is pure: who fetches
what a pointer names is a service's business.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from faultbridge.domain import names
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Rejected
from faultbridge.storage.keys import NO_CLUSTER
from faultbridge.storage.wire.cloud_event import fields_of, is_cloud_event

VERSION = 1
MAX_MESSAGE_BYTES = 240_000
"""What one message may weigh: the queue takes 262,144 bytes, and its service adds to them."""

MAX_BODY_BYTES = 64 * 1024 * 1024
"""What a gzipped body may unpack to."""

_MAX_BOOT_ID = 128
_MAX_SENDER = 200
_WORTH_PACKING = 1024
_SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_POINTER = re.compile(r"raw/[A-Za-z0-9_-]{1,100}/\d{4}-\d{2}-\d{2}/[0-9a-f]{64}")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Message:
    """One raw record on its way: it has either a body or a pointer to one.

    `sent_at` is the sender's clock; `received_at` is when the queue first took the record, kept by whoever sends it
    again, so that a record grows only older by it. `sender` is who first sent it, and counts only where one of our own
    functions sends it again.
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

    @property
    def group(self) -> str:
        """Return what keeps one node's records from starving another's on the queue."""
        return f"{self.cluster}/{self.node or self.instance_id or self.source}"


def raw_key(cluster: str, at: datetime, body: bytes) -> str:
    """Return where a body is kept: its content names it, so keeping it twice is keeping it once."""
    return f"raw/{cluster}/{at:%Y-%m-%d}/{hashlib.sha256(body).hexdigest()}"


def encode_message(message: Message, *, compact: bool = False) -> str:
    """Render a message in the plainest of the encodings that carry it; raises ValueError when none does.

    `compact` gzips at once what is worth it: a sender on a node pays for each byte.
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
    if message.pointer is not None:
        return _render({**frame, "pointer": message.pointer})
    body = message.body or b""
    packs = reversed(list(_PACK.items())) if compact and len(body) > _WORTH_PACKING else iter(_PACK.items())
    for encoding, pack in packs:
        carried = pack(body) if len(body) <= MAX_BODY_BYTES else None
        text = None if carried is None else _render({**frame, "encoding": encoding, "body": carried})
        if text is not None and len(text) <= MAX_MESSAGE_BYTES:
            return text
    raise ValueError(f"a body of {len(body)} bytes fits into no message")


def fits(message: Message) -> bool:
    """Tell whether a message can carry its body itself."""
    try:
        encode_message(message)
    except ValueError:
        return False
    return True


def decode_message(text: str) -> Message:
    """Read a message back; every text that is none is Rejected with a stable reason."""
    frame = _frame(text)
    if is_cloud_event(frame):
        event = fields_of(frame)
        record_id = names.record_id(event.pop("record_id"))
        return Message(record_id=record_id, cluster=NO_CLUSTER, body=text.encode(errors="surrogatepass"), **event)
    return Message(
        record_id=names.record_id(_text(frame, "record_id")),
        source=_source(_text(frame, "source")),
        cluster=_cluster(_text(frame, "cluster")),
        node=_optional(frame, "node", names.node_name),
        instance_id=_optional(frame, "instance_id", names.instance_id),
        boot_id=_optional(frame, "boot_id", _boot),
        sent_at=_instant(_text(frame, "sent_at"), "sent_at"),
        received_at=_optional(frame, "received_at", lambda one: _instant(one, "received_at")),
        body=None if "pointer" in frame else _body(frame),
        pointer=_pointer(frame) if "pointer" in frame else None,
        sender=_optional(frame, "sender", lambda one: one[:_MAX_SENDER]),
    )


def _frame(text: str) -> Mapping[str, Any]:
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        raise Rejected("not_a_record", "the message is no JSON") from None
    if isinstance(frame, dict) and is_cloud_event(frame):
        return frame
    if not isinstance(frame, dict) or "v" not in frame:
        raise Rejected("not_a_record", "the message is no object with a version `v`")
    if frame["v"] != VERSION:
        raise Rejected("unsupported_version", f"version {str(frame['v'])[:20]} of a message is not known here")
    return frame


def _text(frame: Mapping[str, Any], field: str) -> str:
    value = frame.get(field)
    if not isinstance(value, str) or not value:
        raise Rejected("not_a_record", f"`{field}` is missing or no text")
    return value


def _optional(frame: Mapping[str, Any], field: str, read: Callable[[str], T]) -> T | None:
    return None if frame.get(field) in (None, "") else read(_text(frame, field))


def _source(text: str) -> str:
    if _SOURCE.fullmatch(text) is None:
        raise Rejected("unknown_source", f"{text[:80]!r} is no name of a source")
    return text


def _cluster(text: str) -> str:
    return text if text == NO_CLUSTER else names.cluster_name(text)


def _boot(text: str) -> str:
    if len(text) > _MAX_BOOT_ID or not text.isprintable():
        raise Rejected("bad_boot_id", "`boot_id` is no printable text of at most 128 characters")
    return text


def _instant(text: str, field: str) -> datetime:
    try:
        return from_text(text)
    except (ValueError, OverflowError):
        raise Rejected("bad_time", f"`{field}` {text[:40]!r} is no RFC 3339 instant with a time zone") from None


def _pointer(frame: Mapping[str, Any]) -> str:
    # Only what was put there as a raw record may be fetched: a message must not choose what we read.
    pointer = _text(frame, "pointer")
    if _POINTER.fullmatch(pointer) is None or not pointer.startswith(f"raw/{frame['cluster']}/"):
        raise Rejected("bad_pointer", "`pointer` names no raw record of this cluster")
    return pointer


def _body(frame: Mapping[str, Any]) -> bytes:
    unpack = _UNPACK.get(str(frame.get("encoding", "text")))
    if unpack is None:
        raise Rejected("unsupported_encoding", f"{str(frame['encoding'])[:40]!r} is none of {', '.join(_UNPACK)}")
    body = frame.get("body")
    if not isinstance(body, str):
        raise Rejected("not_a_record", "there is neither a `body` nor a `pointer`")
    try:
        return unpack(body)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Rejected("bad_body", f"the body is not {frame.get('encoding', 'text')}: {error}") from None


def _unzip(text: str) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    body = inflate.decompress(base64.b64decode(text, validate=True), MAX_BODY_BYTES)
    if inflate.unconsumed_tail:
        raise Rejected("too_large", f"the body unpacks to more than {MAX_BODY_BYTES} bytes")
    if not inflate.eof:
        raise ValueError("the gzip stream is cut off")
    return body


def _plain(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _render(frame: Mapping[str, Any]) -> str:
    # ASCII: the queue refuses some characters, and a character is a byte.
    return json.dumps(frame, separators=(",", ":"))


_PACK: Mapping[str, Callable[[bytes], str | None]] = {
    "text": _plain,
    "base64": lambda body: base64.b64encode(body).decode(),
    "gzip+base64": lambda body: base64.b64encode(gzip.compress(body, mtime=0)).decode(),
}
_UNPACK: Mapping[str, Callable[[str], bytes]] = {
    "text": str.encode,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "gzip+base64": _unzip,
}
