"""Ports for the event bus, the queues of raw records, and delivery receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class BusEvent:
    """One event in the form that the event bus accepts; `detail` is the exact JSON text."""

    event_id: str
    detail_type: str
    detail: str
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """An event that the event bus did not accept; `permanent` means that a retry cannot succeed."""

    event_id: str
    reason: str
    permanent: bool


class EventBus(Protocol):
    """Publishes events to customers through the event bus."""

    def put(self, events: Sequence[BusEvent]) -> tuple[FailedEvent, ...]:
        """Publish events in batches; return those that were not accepted."""


@dataclass(frozen=True, slots=True)
class RecordQueueDepth:
    """The numbers of messages that wait, are in flight, and are in the dead-letter queue."""

    waiting: int
    in_flight: int
    dead: int


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One received message. It is delivered again unless it is deleted before the visibility timeout."""

    body: str
    group: str
    handle: str
    sent_at: datetime
    receive_count: int


class RecordQueue(Protocol):
    """A queue of raw records, or its dead-letter queue."""

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send pairs of message group and body; return the bodies that were not accepted."""

    def depth(self) -> RecordQueueDepth:
        """Return the approximate number of messages that wait, are in flight or are dead letters."""

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Receive at most ten messages from the queue."""

    def delete(self, message: ReceivedMessage) -> None:
        """Delete a received message from the queue."""

    def release(self, pauses: Mapping[str, int]) -> None:
        """Deliver received messages again after a pause; `pauses` maps receipt handles to seconds.

        Without this call, a message that is not deleted stays invisible for the whole visibility timeout of the queue.
        """


class Receipts(Protocol):
    """The log of sent records and of their outcomes, for the delivery audit.

    A sender or ingest writes one line for many records.
    """

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line to the log of receipts."""

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Yield the lines that senders and ingest have written to the log of receipts at or after a time."""
