"""Messages of the queue: the records that are sent together share a message, because AWS charges for messages."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.agent.delivery.records import OutgoingRecord
from faultbridge.storage.wire.message import MAX_MESSAGE_BYTES
from faultbridge.storage.wire.shared_message import OVERHEAD_BYTES, can_share, join_records


def to_messages(records: Sequence[OutgoingRecord]) -> list[list[OutgoingRecord]]:
    """Return the records of each message, in order: those of one group, within the limits of a message."""
    messages: list[list[OutgoingRecord]] = []
    last_of_group: dict[str, list[OutgoingRecord]] = {}
    for record in records:
        last = last_of_group.get(record.group)
        if last is None or not _has_room(last, record):
            last = last_of_group[record.group] = []
            messages.append(last)
        last.append(record)
    return messages


def text_of(records: Sequence[OutgoingRecord]) -> str:
    """Return the text of a message with these records."""
    return join_records([record.text for record in records])


def _has_room(records: Sequence[OutgoingRecord], record: OutgoingRecord) -> bool:
    size = OVERHEAD_BYTES + sum(one.size + 1 for one in (*records, record))
    return size <= MAX_MESSAGE_BYTES and can_share([one.text for one in (*records, record)])
