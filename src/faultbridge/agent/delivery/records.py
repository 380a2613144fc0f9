"""Outgoing records: encoded messages for the queue, and their file format on disk."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.agent.cursors import Cursor
from faultbridge.storage.wire.message import Message, encode_message, raw_key


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """One encoded message for the queue.

    A body above the message limit is in `object_body`; it is written to the bucket as `object_key` before the message
    is sent.
    """

    record_id: str
    group: str
    text: str
    cursor: Cursor | None = None
    object_key: str | None = None
    object_body: bytes = b""

    @property
    def size(self) -> int:
        """Return the message size on the queue in bytes."""
        return len(self.text)

    def to_bytes(self) -> bytes:
        """Encode the record as a file: a line of JSON, a line with the message, then the object body."""
        cursor = None if self.cursor is None else [self.cursor.log, self.cursor.number, dict(self.cursor.position)]
        head = json.dumps({"id": self.record_id, "group": self.group, "cursor": cursor, "key": self.object_key})
        return b"\n".join((head.encode(), self.text.encode(), self.object_body))

    @classmethod
    def from_bytes(cls, stored: bytes) -> OutgoingRecord:
        """Decode a file; raises ValueError when it has another format."""
        head, text, body = stored.split(b"\n", 2)
        try:
            fields = json.loads(head)
            cursor = None if fields["cursor"] is None else Cursor(*fields["cursor"])
            return cls(fields["id"], fields["group"], text.decode(), cursor, fields["key"], body)
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class RecordPacker:
    """Encodes log lines, probe output and heartbeats as outgoing records of this node."""

    cluster: str
    node: str | None
    instance_id: str | None
    boot_id: str | None
    has_bucket: bool = False
    new_id: Callable[[], str] = field(default=lambda: str(uuid.uuid4()))

    def pack(self, source: str, body: bytes, at: datetime, cursor: Cursor | None = None) -> OutgoingRecord | None:
        """Encode a body as a record.

        A body above the message limit is written to the bucket; without a bucket the result is None.
        """
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
            return OutgoingRecord(message.record_id, message.group, encode_message(message, compact=True), cursor)
        except ValueError:
            if not self.has_bucket:
                return None
        key = raw_key(self.cluster, at, body)
        pointer = encode_message(replace(message, body=None, pointer=key))
        return OutgoingRecord(message.record_id, message.group, pointer, cursor, key, body)
