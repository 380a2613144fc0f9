"""Redrive: moves dead letters back to the queue and keeps the time at which each record first arrived.

Each record of a message becomes a separate message. A record that fails again then does not return the other records of
the message to the dead-letter queue.

A redrive in the AWS console gives a record a new arrival time, and ingest would treat an old fault as a new one. This
redrive writes the original arrival time into the record. Messages of the queue for EventBridge events contain their own
time and are moved unchanged (`dated=False`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import encode_message
from faultbridge.model.values import replace
from faultbridge.record.ports import ReceivedMessage, RecordQueue

DEFAULT_GROUP = "unread"
"""Message group of a message that has no group and does not name one."""


def _no_progress(_count: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Redrive:
    """Moves messages from a dead-letter queue to its source queue.

    A crash can leave a message in both queues, which is harmless, because the effects of a record apply only once. With
    `dated`, the first arrival time is written into each record. Without it, messages are moved unchanged.
    """

    dead: RecordQueue
    queue: RecordQueue
    dated: bool = True

    def redrive(self, progress: Callable[[int], None] = _no_progress) -> int:
        """Move about as many messages as the dead-letter queue has now, and return how many were moved.

        `progress` is called with the number of messages of each received batch. Raises Transient if the source queue
        refuses a message.
        """
        left, moved = self.dead.depth().waiting, 0
        while left > 0 and (received := self.dead.receive()):
            for message in received:
                self._move(message)
                moved, left = moved + 1, left - 1
            progress(len(received))
        return moved

    def _move(self, message: ReceivedMessage) -> None:
        texts = split_records(message.body) if self.dated else ()
        if self.queue.send([_with_arrival_time(message, text) for text in texts] or [_unchanged(message)]):
            raise Transient("the queue refused a record; the dead-letter queue still has it: run the command again")
        self.dead.delete(message)


def _with_arrival_time(message: ReceivedMessage, text: str) -> tuple[str, str]:
    try:
        record = decode_message(text)
    except Rejected as error:
        # Ingest rejects it again, with this reason.
        log_cause("dead_letter_moved_unchanged", reason=error.reason)
        return message.group or DEFAULT_GROUP, text
    dated = replace(record, received_at=min(record.received_at or message.sent_at, message.sent_at))
    return dated.group, encode_message(dated)


def _unchanged(message: ReceivedMessage) -> tuple[str, str]:
    return message.group or DEFAULT_GROUP, message.body
