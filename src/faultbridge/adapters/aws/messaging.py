"""The event bus and the queues."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, TypeVar

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.times import from_milliseconds
from faultbridge.record.ports.messaging import BusEvent, FailedEvent, ReceivedMessage, RecordQueueDepth

T = TypeVar("T")


def batches(parts: Iterable[T], *, size_of: Callable[[T], int], count: int, size: int) -> Iterator[list[T]]:
    """Yield batches of at most `count` parts and `size` in total; a larger part is a batch of its own."""
    batch: list[T] = []
    room = size
    for part in parts:
        weight = size_of(part)
        if batch and (len(batch) == count or weight > room):
            yield batch
            batch, room = [], size
        batch.append(part)
        room -= weight
    if batch:
        yield batch


MESSAGES_AT_ONCE = 10
# SQS now accepts 1 MiB per call, but older queues and emulators accept only this size.
CALL_BYTES = 256 * 1024
WAIT_SECONDS = 1
AGE_WINDOW = timedelta(minutes=10)

_GROUP = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")


class SqsQueue:
    """A RecordQueue on a standard queue: message groups keep one node from delaying others, unordered."""

    def __init__(self, clients: Clients, url: str, dead_letter_url: str | None = None) -> None:
        self._clients = clients
        self._url = url
        self._dead_letter_url = dead_letter_url

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send (message group, body) pairs; returns the bodies that were not accepted.

        These are bodies above 256 KiB, which are not sent, bodies that SQS refused, and all bodies of a call that
        failed temporarily. If the first call fails temporarily, Transient is raised instead.
        """
        fitting = [message for message in messages if _size(message) <= CALL_BYTES]
        unsent = [message[1] for message in messages if _size(message) > CALL_BYTES]
        fitting_batches = batches(fitting, size_of=_size, count=MESSAGES_AT_ONCE, size=CALL_BYTES)
        for number, batch in enumerate(fitting_batches):
            try:
                unsent.extend(self._send(batch))
            except Transient:
                if number == 0:
                    raise
                unsent.extend(body for _, body in batch)
        return tuple(unsent)

    def depth(self) -> RecordQueueDepth:
        """Return the approximate numbers of waiting, in-flight and dead messages (0 without such a queue)."""
        waiting, in_flight = self._count(self._url)
        dead = sum(self._count(self._dead_letter_url)) if self._dead_letter_url else 0
        return RecordQueueDepth(waiting, in_flight, dead)

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Receive up to ten messages; waits at most one second for the first message."""
        with translated(f"receiving from {self._url}"):
            answer = self._clients.sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MESSAGES_AT_ONCE,
                WaitTimeSeconds=WAIT_SECONDS,
                MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"],
            )
        return tuple(_received(message) for message in answer.get("Messages", []))

    def delete(self, message: ReceivedMessage) -> None:
        """Delete a received message from the queue."""
        with translated(f"deleting from {self._url}"):
            self._clients.sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message.handle)

    def release(self, pauses: Mapping[str, int]) -> None:
        """Return messages to the queue, each with the seconds until SQS delivers it again.

        `pauses` maps receipt handles to seconds. A message that SQS does not release is delivered again after the
        visibility timeout of the queue.
        """
        waiting = iter(pauses.items())
        while batch := list(islice(waiting, MESSAGES_AT_ONCE)):
            entries: list[Any] = [
                {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for number, (handle, seconds) in enumerate(batch)
            ]
            with translated(f"releasing {len(batch)} messages of {self._url}"):
                answer = self._clients.sqs.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
            for failure in answer.get("Failed", []):
                log_cause("release_refused", reason=f"{failure['Code']}: {failure.get('Message', '')}", queue=self._url)

    def _send(self, batch: Sequence[tuple[str, str]]) -> list[str]:
        entries: list[Any] = [
            {"Id": str(number), "MessageBody": body, "MessageGroupId": fair_group(group)}
            for number, (group, body) in enumerate(batch)
        ]
        with translated(f"sending {len(batch)} messages to {self._url}"):
            answer = self._clients.sqs.send_message_batch(QueueUrl=self._url, Entries=entries)
        return [batch[int(failure["Id"])][1] for failure in answer.get("Failed", [])]

    def _count(self, url: str) -> tuple[int, int]:
        with translated(f"reading the depth of {url}"):
            answer = self._clients.sqs.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            )
        attributes: dict[Any, str] = dict(answer.get("Attributes", {}))
        return (
            int(attributes.get("ApproximateNumberOfMessages", 0)),
            int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
        )


def queue_age(clients: Clients, queue: str, now: datetime) -> timedelta | None:
    """Return the age of the oldest message, up to ten minutes old; None without data, as in emulators."""
    with translated(f"reading the age of {queue}"):
        answer = clients.cloudwatch.get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="ApproximateAgeOfOldestMessage",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
            StartTime=now - AGE_WINDOW,
            EndTime=now,
            Period=60,
            Statistics=["Maximum"],
        )
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return timedelta(seconds=points[-1]["Maximum"]) if points else None


def fair_group(group: str) -> str:
    """Return a message group id for an SQS fair queue; an id that SQS refuses is replaced by its hash."""
    return group if _GROUP.fullmatch(group) else hashlib.sha256(group.encode()).hexdigest()


def _size(message: tuple[str, str]) -> int:
    return len(message[1].encode())


def _received(message: Any) -> ReceivedMessage:  # noqa: ANN401 - the stubs' type exists only for type checkers
    attributes = message.get("Attributes", {})
    return ReceivedMessage(
        body=message["Body"],
        group=attributes.get("MessageGroupId", ""),
        handle=message["ReceiptHandle"],
        sent_at=from_milliseconds(int(attributes["SentTimestamp"])),
        receive_count=int(attributes["ApproximateReceiveCount"]),
    )


ENTRIES_AT_ONCE = 10
EVENTS_CALL_BYTES = 256 * 1024  # 1 MB in most regions; the pages of some state less
EVENT_BYTES = 256 * 1024

# Error codes of one entry: of its content, which a retry cannot fix, and of the deployment, which an operator must fix.
# Any other code is temporary.
CONTENT_CODES = frozenset({"InvalidArgument", "MalformedDetail"})
DEPLOYMENT_CODES = frozenset(
    {
        "AccessDeniedException",
        "InvalidAccountIdException",
        "NotAuthorizedForDetailTypeException",
        "NotAuthorizedForSourceException",
    }
)


class EventBridgeBus:
    """An EventBus on EventBridge; its events have one source, which must not start with `aws.`."""

    def __init__(self, clients: Clients, bus: str, source: str) -> None:
        if source.startswith("aws."):
            raise Misconfigured(f"event source is reserved by AWS: {source!r}; use one that does not begin with aws.")
        self._clients = clients
        self._bus = bus
        self._source = source

    def put(self, events: Sequence[BusEvent]) -> tuple[FailedEvent, ...]:
        """Publish the events, at most ten and 256 KiB per call; returns the events that were not accepted.

        Events with a defect, which are not sent, and events that EventBridge can never accept are `permanent`; after a
        temporary failure they are not. If EventBridge rejects events because of the deployment, such as a missing
        permission, Misconfigured is raised, even if other events were accepted before.
        """
        defects = {event.event_id: self.defect_of(event) for event in events}
        invalid = (FailedEvent(event_id, defect, permanent=True) for event_id, defect in defects.items() if defect)
        valid = [event for event in events if not defects[event.event_id]]
        sent = batches(valid, size_of=self.size_of, count=ENTRIES_AT_ONCE, size=EVENTS_CALL_BYTES)
        return tuple(chain(invalid, *(self._send(batch) for batch in sent)))

    def defect_of(self, event: BusEvent) -> str:
        """Return why EventBridge can never accept the event; empty if its size and its JSON are valid."""
        if self.size_of(event) > EVENT_BYTES:
            return f"the event is too large: {self.size_of(event)} bytes; at most {EVENT_BYTES}"
        try:
            detail = json.loads(event.detail)
        except ValueError:
            return "the detail is not JSON"
        return "" if isinstance(detail, dict) else "the detail is not a JSON object"

    def size_of(self, event: BusEvent) -> int:
        """Return the size of an event in bytes, counted as EventBridge counts it."""
        parts = chain((self._source, event.detail_type, event.detail), event.resources)
        return sum(len(part.encode()) for part in parts)

    def _send(self, batch: Sequence[BusEvent]) -> Iterable[FailedEvent]:
        name, source = self._bus, self._source
        entries: list[Any] = [
            {"EventBusName": name, "Source": source, "DetailType": event.detail_type, "Detail": event.detail}
            | {"Resources": list(event.resources)}
            for event in batch
        ]
        try:
            with translated(f"putting {len(batch)} events on {self._bus}"):
                answer = self._clients.events.put_events(Entries=entries)
        except Transient as error:
            return [FailedEvent(event.event_id, str(error), permanent=False) for event in batch]
        return self._failures(batch, answer["Entries"])

    def _failures(self, batch: Sequence[BusEvent], results: Sequence[Any]) -> Iterator[FailedEvent]:
        for event, result in zip(batch, results, strict=True):
            code = result.get("ErrorCode")
            if not code:
                continue
            reason = f"{code}: {result.get('ErrorMessage', '')}"
            if code in DEPLOYMENT_CODES:
                raise Misconfigured(f"the bus {self._bus} rejects events: {reason}")
            yield FailedEvent(event.event_id, reason, permanent=code in CONTENT_CODES)
