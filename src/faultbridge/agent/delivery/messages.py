"""Packs several records into one queue message, because AWS charges for each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from faultbridge.agent.delivery.records import OutgoingRecord
from faultbridge.storage.wire.body_encodings import MAX_UNPACKED_BYTES
from faultbridge.storage.wire.message import (
    MAX_MESSAGE_BYTES,
    MAX_SHARED_RECORDS,
    OVERHEAD_BYTES,
    join_records,
    unpacked_bytes,
)


def to_messages(records: Sequence[OutgoingRecord]) -> list[list[OutgoingRecord]]:
    """Divide records into queue messages; the records of one message group keep their order.

    All records of a message have the same SQS message group. A message with several records is within the size limits
    of the queue.
    """
    messages: list[_Filling] = []
    last_of_group: dict[str, _Filling] = {}
    for record in records:
        unpacked = unpacked_bytes(record.text)
        last = last_of_group.get(record.group)
        if last is None or unpacked is None or not last.has_room(record, unpacked):
            last = last_of_group[record.group] = _Filling()
            messages.append(last)
        last.add(record, unpacked)
    return [message.records for message in messages]


def text_of(records: Sequence[OutgoingRecord]) -> str:
    """Return the body of the queue message that contains these records."""
    return join_records([record.text for record in records])


@dataclass(slots=True)
class _Filling:
    """A queue message to which records are added until it is full.

    `size` is the size of the message in bytes. `unpacked` is the total size in bytes of the bodies of its records
    before compression. `shares` is False if no other record may be added to the message.
    """

    records: list[OutgoingRecord] = field(default_factory=list)
    size: int = OVERHEAD_BYTES
    unpacked: int = 0
    shares: bool = True

    def has_room(self, record: OutgoingRecord, unpacked: int) -> bool:
        return (
            self.shares
            and len(self.records) < MAX_SHARED_RECORDS
            and self.size + record.size + 1 <= MAX_MESSAGE_BYTES
            and self.unpacked + unpacked <= MAX_UNPACKED_BYTES
        )

    def add(self, record: OutgoingRecord, unpacked: int | None) -> None:
        """Add a record to the message.

        `unpacked` is the size of the uncompressed body of the record in bytes. It is None if the size cannot be
        determined; then no other record may be added to the message.
        """
        self.records.append(record)
        self.size += record.size + 1
        self.unpacked += unpacked or 0
        self.shares = unpacked is not None
