"""Outgoing records: encoded messages for the queue, their urgency, and their file format on disk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from faultbridge.model.records import SentValues
from faultbridge.model.storage.wire.message import Message, encode_message, raw_key
from faultbridge.node.agent.cursors import Cursor

ID_BYTES = 12
"""Random bytes of a record id: a fleet that sends a thousand records a second for a year repeats none by chance."""


def new_record_id() -> str:
    """Return a random id of 16 characters; it is short, as AWS charges for each logged byte."""
    while not (found := secrets.token_urlsafe(ID_BYTES))[0].isalnum():
        pass
    return found


class Wait(Enum):
    """How long a record may wait, so that it is sent in one call with other records."""

    NONE = "none"
    """It is sent at once: lines of a log, files of other programs."""

    SHORT = "short"
    """It waits for some seconds: output of a probe in which something changed."""

    HOLD = "hold"
    """It waits for the next call or heartbeat: unchanged output of a probe, log lines that are mild faults."""


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """One encoded message for the queue.

    - `group` is the SQS message group, and `text` is the message.
    - `object_body` is a body above the message limit; it is empty if the message contains the body. The sender writes
      `object_body` to the bucket under the key `object_key`, then sends the message.
    - `cursor` is the read position in the log after the lines of the record. It is None for records that contain no log
      lines. If lines are divided into several records, only the last record has the cursor.
    - `wait` is not stored on disk: after a restart, every record is sent at once.
    """

    record_id: str
    group: str
    text: str
    cursor: Cursor | None = None
    object_key: str | None = None
    object_body: bytes = b""
    wait: Wait = field(default=Wait.NONE, compare=False)

    @property
    def size(self) -> int:
        """Return the size of the message in the queue, in bytes."""
        return len(self.text)

    def to_bytes(self) -> bytes:
        """Encode the record as file content: a line of JSON, a line with the message, then the object body."""
        cursor = None if self.cursor is None else [self.cursor.log, self.cursor.number, dict(self.cursor.position)]
        head = json.dumps({"id": self.record_id, "group": self.group, "cursor": cursor, "key": self.object_key})
        return b"\n".join((head.encode(), self.text.encode(), self.object_body))

    @classmethod
    def from_bytes(cls, stored: bytes) -> OutgoingRecord:
        """Decode the content of a record file; raises ValueError when the content has another format."""
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
    clock_offset: Callable[[], timedelta] = timedelta
    new_id: Callable[[], str] = new_record_id

    def pack(
        self,
        source: str,
        body: bytes,
        at: datetime,
        cursor: Cursor | None = None,
        wait: Wait = Wait.NONE,
        values: SentValues | None = None,
    ) -> OutgoingRecord | None:
        """Encode a body as an outgoing record. Returns None if the body is too large to send.

        A body above the message limit is sent through the bucket; without a bucket, it is too large to send.

        - `at` is a time of the clock of the host. The record contains `at` plus the measured offset of this clock.
        - `cursor`, if it is not None, is the read position in the log after the body.
        - `values` identifies the sample in the body. It is None if ingest stores no samples of the source.
        """
        offset = self.clock_offset()
        if values is not None and offset:
            values = replace(values, last_sent={one: sent + offset for one, sent in values.last_sent.items()})
        message = Message(
            record_id=self.new_id(),
            source=source,
            cluster=self.cluster,
            sent_at=at + offset,
            node=self.node,
            instance_id=self.instance_id,
            boot_id=self.boot_id,
            body=body,
            values=values,
        )
        try:
            text = encode_message(message, compact=True)
            return OutgoingRecord(message.record_id, message.group, text, cursor, wait=wait)
        except ValueError:
            if not self.has_bucket:
                return None
        key = raw_key(self.cluster, message.sent_at, body)
        pointer = encode_message(replace(message, body=None, pointer=key))
        return OutgoingRecord(message.record_id, message.group, pointer, cursor, key, body, wait)
