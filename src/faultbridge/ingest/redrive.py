"""Redrive: dead letters back to the queue that gave them up, no younger than they were.

A console's own redrive gives a record a new time, which makes an old fault look fresh; this one writes into the record
the time at which the queue first took it. A cloud event says its own time, and goes back as it is: what proves it is
the queue that it lies on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from faultbridge.errors import Rejected, Transient
from faultbridge.ports import ReceivedMessage, RecordQueue
from faultbridge.storage.wire.message import decode_message, encode_message

UNREAD = "unread"


def _silent(_count: int) -> None:
    return


@dataclass(frozen=True, slots=True)
class Redrive:
    """Moves messages from the dead letters to the queue; a crash in between leaves one in both, which is harmless.

    `dated` writes into each record when it first came; without it a message goes back as it is.
    """

    dead: RecordQueue
    queue: RecordQueue
    dated: bool = True

    def __call__(self, progress: Callable[[int], None] = _silent) -> int:
        """Move every message that is dead now and return how many; raises Transient when the queue takes no more."""
        left, moved = self.dead.depth().waiting, 0
        while left > 0 and (received := self.dead.receive()):
            for message in received:
                self._move(message)
                moved, left = moved + 1, left - 1
            progress(len(received))
        return moved

    def _move(self, message: ReceivedMessage) -> None:
        if self.queue.send([_again(message) if self.dated else (message.group or UNREAD, message.body)]):
            raise Transient("the queue did not take a record; what was not moved is still among the dead letters")
        self.dead.delete(message)


def _again(message: ReceivedMessage) -> tuple[str, str]:
    try:
        record = decode_message(message.body)
    except Rejected:
        return message.group or UNREAD, message.body  # ingest will say what is wrong with it
    dated = replace(record, received_at=record.received_at or message.sent_at)
    return dated.group, encode_message(dated)
