"""Fakes of the event bus, the record queue, the pager and the receipts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Any

from faultbridge.record.ports.messaging import BusEvent, FailedEvent, PageMessage, ReceivedMessage, RecordQueueDepth
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.clock import ManualClock
from tests.sim.fakes.seam import Seam

MAX_EVENT_BYTES = 256 * 1024
MAX_MESSAGE_BYTES = 256 * 1024
MAX_MESSAGES_PER_RECEIVE = 10


def _accept_all(event: BusEvent) -> FailedEvent | None:
    return None


class FakeBus:
    """Implements `EventBus` (fake): keeps all accepted events.

    A test can set `refuse`, a function that returns the refusal of an event, or None to accept the event. As with
    `PutEvents` of AWS, a call with refused events succeeds, and returns the refusals.
    """

    def __init__(
        self, *, seam: Seam | None = None, refuse: Callable[[BusEvent], FailedEvent | None] = _accept_all
    ) -> None:
        self.seam = seam or Seam()
        self.refuse = refuse
        self.accepted: list[BusEvent] = []

    def put(self, events: Sequence[BusEvent]) -> tuple[FailedEvent, ...]:
        """Accept events for publication; returns the refused events with the reasons."""
        with self.seam.around("bus", "put", tuple(events)):
            refusals = []
            for event in events:
                refusal = self._validation_error(event) or self.refuse(event)
                if refusal is None:
                    self.accepted.append(event)
                else:
                    refusals.append(refusal)
            return tuple(refusals)

    @property
    def ids(self) -> list[str]:
        """The ids of all accepted events in the order of their publication, including duplicates."""
        return [event.event_id for event in self.accepted]

    def _validation_error(self, event: BusEvent) -> FailedEvent | None:
        size = len(event.detail.encode()) + len(event.detail_type.encode())
        size += sum(len(resource.encode()) for resource in event.resources)
        if size > MAX_EVENT_BYTES:
            return FailedEvent(event.event_id, "too large", permanent=True)
        try:
            valid = isinstance(json.loads(event.detail), dict)
        except ValueError:
            valid = False
        return None if valid else FailedEvent(event.event_id, "no JSON object", permanent=True)


@dataclass
class QueuedMessage:
    """One message in the queue; it can be received from `visible_at` on."""

    number: int
    group: str
    body: str
    sent_at: datetime
    visible_at: datetime
    receive_count: int = 0
    sender: str | None = None


class FakeQueue:
    """Implements `RecordQueue` (fake): at-least-once delivery, visibility timeout, dead letters.

    After a message was received `max_receives` times and its visibility timeout has ended, the next call of `receive`
    moves the message to `dead`. `sender` is the sender that the queue stores with each message.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seam: Seam | None = None,
        visibility: timedelta = timedelta(minutes=6),
        max_receives: int = 1000,
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.visibility = visibility
        self.max_receives = max_receives
        self.messages: list[QueuedMessage] = []
        self.dead: list[QueuedMessage] = []
        self.sender: str | None = None
        self._numbers = count(1)

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Put messages on the queue; each message is a pair of group and body.

        Returns the bodies that are too large for a queue; they are not queued.
        """
        with self.seam.around("queue", "send", tuple(messages)):
            now = self.clock.now()
            for group, body in messages:
                if len(body.encode()) <= MAX_MESSAGE_BYTES:
                    self.messages.append(QueuedMessage(next(self._numbers), group, body, now, now, sender=self.sender))
            return tuple(body for _, body in messages if len(body.encode()) > MAX_MESSAGE_BYTES)

    def depth(self) -> RecordQueueDepth:
        """Return the numbers of messages that are waiting, in flight, and in the dead-letter list."""
        with self.seam.around("queue", "depth"):
            waiting = sum(message.visible_at <= self.clock.now() for message in self.messages)
            return RecordQueueDepth(waiting, len(self.messages) - waiting, len(self.dead))

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Return up to ten visible messages, and hide them for the visibility timeout."""
        with self.seam.around("queue", "receive"):
            now = self.clock.now()
            self.dead += [message for message in self.messages if self._is_exhausted(message)]
            self.messages = [message for message in self.messages if not self._is_exhausted(message)]
            visible = (message for message in self.messages if message.visible_at <= now)
            return tuple(self._received(message) for message in islice(visible, MAX_MESSAGES_PER_RECEIVE))

    def delete(self, message: ReceivedMessage) -> None:
        """Delete a received message."""
        with self.seam.around("queue", "delete", message):
            number = int(message.handle.partition("-")[0])
            self.messages = [one for one in self.messages if one.number != number]

    def release(self, pauses: Mapping[str, int]) -> None:
        """Make received messages visible again after a pause.

        `pauses` maps receipt handles to seconds. An outdated receipt handle is ignored.
        """
        with self.seam.around("queue", "release", dict(pauses)):
            for message in self.messages:
                if (seconds := pauses.get(_handle(message))) is not None:
                    message.visible_at = self.clock.now() + timedelta(seconds=seconds)

    def _is_exhausted(self, message: QueuedMessage) -> bool:
        return message.receive_count >= self.max_receives and message.visible_at <= self.clock.now()

    def _received(self, message: QueuedMessage) -> ReceivedMessage:
        message.receive_count += 1
        message.visible_at = self.clock.now() + self.visibility
        handle = _handle(message)
        return ReceivedMessage(message.body, message.group, handle, message.sent_at, message.receive_count)


def _handle(message: QueuedMessage) -> str:
    return f"{message.number}-{message.receive_count}"


class FakePager:
    """Implements `Pager` (fake): keeps every sent page in `sent`.

    `attempted` also contains the pages whose call failed. Like SNS, the fake sends a repeated page again; the caller
    must prevent repeated pages.
    """

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.sent: list[PageMessage] = []
        self.attempted: list[PageMessage] = []

    def send(self, page: PageMessage) -> str:
        """Send a page; returns its message id.

        SNS requires a body named `default`. A page without this body raises `ValueError`.
        """
        if "default" not in page.bodies:
            raise ValueError(f"page without a default body: {page.key}; add bodies['default']")
        self.attempted.append(page)
        with self.seam.around("pager", "send", page):
            self.sent.append(page)
            return f"message-{len(self.sent)}"

    @property
    def keys(self) -> list[str]:
        """The keys of all sent pages in the order of sending, including duplicates."""
        return [page.key for page in self.sent]


class FakeReceipts:
    """Implements `Receipts` (fake): stores lines about sent records and the outcomes of records."""

    def __init__(self, clock: Clock | None = None, *, seam: Seam | None = None) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.lines: list[tuple[datetime, dict[str, Any]]] = []

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one receipt line with the current time."""
        with self.seam.around("receipts", "write", line):
            self.lines.append((self.clock.now(), json.loads(json.dumps(line))))

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Yield the receipt lines that were written at or after a time."""
        with self.seam.around("receipts", "read", since):
            yield from (line for at, line in self.lines if at >= since)
