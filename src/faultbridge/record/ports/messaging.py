"""Ports for the event bus, the queues of raw records, and delivery receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


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

    def write(self, line: Mapping[str, object]) -> None:
        """Append one line to the log of receipts."""

    def read(self, since: datetime) -> Iterator[Mapping[str, object]]:
        """Yield the lines that senders and ingest have written to the log of receipts at or after a time."""


class PageUrgency(StrEnum):
    """The urgency of a page: `urgent` needs action now, `notice` can be read later."""

    URGENT = "urgent"
    NOTICE = "notice"


class PageFormat(StrEnum):
    """The format of a page for one kind of paging service.

    `alarm` is a CloudWatch alarm, which PagerDuty's integration reads from an SNS topic. `chat` is a custom
    notification of Amazon Q Developer in chat applications. `pagerduty` is a PagerDuty Events API v2 event without its
    routing key. `slack` and `teams` are messages of their webhooks.
    """

    ALARM = "alarm"
    CHAT = "chat"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True)
class FormattedPage:
    """A page in the format of one service: a subject of at most 100 ASCII characters, and a body as JSON."""

    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: a notification that is sent to operators.

    `subject` has at most 100 ASCII characters. `bodies` maps each SNS protocol to the text of the page. SNS
    subscriptions filter pages by `attributes`. `forms` has the page in the formats of particular services.
    """

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]
    forms: Mapping[PageFormat, FormattedPage] = field(default_factory=dict)


class Pager(Protocol):
    """Sends pages (notifications) to operators."""

    def send(self, page: PageMessage) -> str:
        """Send a page and return the id of the sent message."""


class ExecutionStatus(StrEnum):
    """The status of one workflow execution; `missing` means that no execution has this name."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


class Workflow(Protocol):
    """Starts and resumes the workflow executions that drive repair attempts through their steps.

    Each execution drives one attempt.
    """

    def start(self, name: str, payload: Mapping[str, object]) -> None:
        """Start an execution with this name. An execution that already exists counts as started.

        Raises ValueError for an invalid name.
        """

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of the workflow execution with this name."""

    def resume(self, token: str, output: Mapping[str, object]) -> bool:
        """Resume the execution that waits with this task token; returns False if none waits with it."""
