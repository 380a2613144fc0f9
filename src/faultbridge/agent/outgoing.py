"""Outgoing records: what waits on the disk to be sent, and how it lies there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from faultbridge.storage.wire.message import Message, encode_message, raw_key


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a log was followed once this record is safe; `n` grows by one with each record of that log."""

    log: str
    n: int
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message, ready to be sent; `key` and `body` are what must lie in the bucket before."""

    record_id: str
    group: str
    text: str
    mark: Mark | None = None
    key: str | None = None
    body: bytes = b""

    @property
    def size(self) -> int:
        """Return the bytes that it weighs on the queue."""
        return len(self.text)

    def to_bytes(self) -> bytes:
        """Render it as a file: one line of JSON, one line of message, the body where there is one."""
        mark = None if self.mark is None else [self.mark.log, self.mark.n, dict(self.mark.value)]
        head = json.dumps({"id": self.record_id, "group": self.group, "mark": mark, "key": self.key})
        return b"\n".join((head.encode(), self.text.encode(), self.body))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Outgoing:
        """Read a file back; raises ValueError when it is none."""
        head, text, body = stored.split(b"\n", 2)
        try:
            read = json.loads(head)
            mark = None if read["mark"] is None else Mark(*read["mark"])
            return cls(read["id"], read["group"], text.decode(), mark, read["key"], body)
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Packer:
    """Makes outgoing records of one node."""

    cluster: str
    node: str | None
    instance_id: str | None
    boot_id: str | None
    has_bucket: bool = False
    new_id: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))

    def pack(self, source: str, body: bytes, at: datetime, mark: Mark | None = None) -> Outgoing | None:
        """Pack a body as light as it gets; one that fits into no message goes beside it, None without a bucket."""
        message = Message(
            record_id=self.new_id(),
            source=source,
            cluster=self.cluster,
            sent_at=at,
            node=self.node,
            instance_id=self.instance_id,
            boot_id=self.boot_id,
            body=body,
        )
        try:
            return Outgoing(message.record_id, message.group, encode_message(message, compact=True), mark)
        except ValueError:
            if not self.has_bucket:
                return None
        key = raw_key(self.cluster, at, body)
        pointing = encode_message(replace(message, body=None, pointer=key))
        return Outgoing(message.record_id, message.group, pointing, mark, key, body)
