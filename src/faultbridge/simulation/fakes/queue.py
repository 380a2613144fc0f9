"""A queue in memory: at least once, visibility, receive counts, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, islice

from faultbridge.ports import Clock, ReceivedMessage, RecordQueueDepth
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam

BODY_BYTES = 256 * 1024
MESSAGES_AT_ONCE = 10


@dataclass
class Waiting:
    """One message and when it may be received next."""

    number: int
    group: str
    body: str
    sent_at: datetime
    visible_at: datetime
    receive_count: int = 0


class FakeQueue:
    """A RecordQueue (fake); a message that was received too often goes to `dead` on the next receive."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seam: Seam | None = None,
        visibility: timedelta = timedelta(minutes=6),
        most_receives: int = 1000,
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.visibility = visibility
        self.most_receives = most_receives
        self.messages: list[Waiting] = []
        self.dead: list[Waiting] = []
        self._numbers = count(1)

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Take it."""
        with self.seam.around("queue", "send", tuple(messages)):
            now = self.clock.now()
            for group, body in messages:
                if len(body.encode()) <= BODY_BYTES:
                    self.messages.append(Waiting(next(self._numbers), group, body, now, now))
            return tuple(body for _, body in messages if len(body.encode()) > BODY_BYTES)

    def depth(self) -> RecordQueueDepth:
        """Count the messages."""
        with self.seam.around("queue", "depth"):
            waiting = sum(message.visible_at <= self.clock.now() for message in self.messages)
            return RecordQueueDepth(waiting, len(self.messages) - waiting, len(self.dead))

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Hand over up to ten messages."""
        with self.seam.around("queue", "receive"):
            now = self.clock.now()
            self.dead += [message for message in self.messages if self._worn(message)]
            self.messages = [message for message in self.messages if not self._worn(message)]
            ready = (message for message in self.messages if message.visible_at <= now)
            return tuple(self._hand_over(message) for message in islice(ready, MESSAGES_AT_ONCE))

    def delete(self, message: ReceivedMessage) -> None:
        """Take a message off for good."""
        with self.seam.around("queue", "delete", message):
            number = int(message.handle.partition("-")[0])
            self.messages = [waiting for waiting in self.messages if waiting.number != number]

    def _worn(self, message: Waiting) -> bool:
        return message.receive_count >= self.most_receives and message.visible_at <= self.clock.now()

    def _hand_over(self, message: Waiting) -> ReceivedMessage:
        message.receive_count += 1
        message.visible_at = self.clock.now() + self.visibility
        handle = f"{message.number}-{message.receive_count}"
        return ReceivedMessage(message.body, message.group, handle, message.sent_at, message.receive_count)
