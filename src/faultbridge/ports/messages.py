"""What goes in and out: the bus, the queue of raw records, receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class BusEvent:
    """One event as the bus takes it: `detail` is the exact JSON text."""

    event_id: str
    detail_type: str
    detail: str
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event that the bus did not take; `permanent` when no repetition will help."""

    event_id: str
    reason: str
    permanent: bool


class EventBus(Protocol):
    """Where entries go to be seen by customers."""

    def put(self, events: Sequence[BusEvent]) -> tuple[Refusal, ...]:
        """Send the events in as few calls as the limits allow; what is not in the answer was taken."""
        ...


@dataclass(frozen=True, slots=True)
class RecordQueueDepth:
    """How many messages wait, are being worked on, and are dead."""

    waiting: int
    in_flight: int
    dead: int


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message in hand; it comes back by itself unless it is deleted in time."""

    body: str
    group: str
    handle: str
    sent_at: datetime
    receive_count: int


class RecordQueue(Protocol):
    """The queue of raw records, or that of its dead letters."""

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send (group, body) pairs; returns the bodies that were not accepted."""
        ...

    def depth(self) -> RecordQueueDepth:
        """Read how many messages there are, approximately."""
        ...

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Take up to ten messages."""
        ...

    def delete(self, message: ReceivedMessage) -> None:
        """Take a received message off the queue for good."""
        ...


class Receipts(Protocol):
    """The log of what was sent and what came of it, one line a batch, for `audit`."""

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line."""
        ...

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Read every line written at or after an instant, senders' and ingest's alike."""
        ...
