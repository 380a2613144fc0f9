"""A queue on SQS: the raw records', its dead letters'."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.batches import batches
from faultbridge.adapters.clients import Clients
from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Transient
from faultbridge.ports import ReceivedMessage, RecordQueueDepth

MESSAGES_AT_ONCE = 10
# The service takes 1 MiB by now; queues made earlier, and emulators, take this much.
CALL_BYTES = 256 * 1024
WAIT_SECONDS = 1

_GROUP = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")


class SqsQueue:
    """A RecordQueue on a standard SQS queue; the group of a message only keeps one node from starving others."""

    def __init__(self, clients: Clients, url: str, dead_letter_url: str | None = None) -> None:
        self._clients = clients
        self._url = url
        self._dead_letter_url = dead_letter_url

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send (group, body) pairs, at most ten and 256 KiB a call; returns the bodies that were not accepted.

        It raises Transient only when the first call fails, so that what was accepted is always known.
        """
        fitting = [message for message in messages if _size(message) <= CALL_BYTES]
        unsent = [message[1] for message in messages if _size(message) > CALL_BYTES]
        cut = batches(fitting, size_of=_size, count=MESSAGES_AT_ONCE, size=CALL_BYTES)
        for number, batch in enumerate(cut):
            try:
                unsent.extend(self._send(batch))
            except Transient:
                if number == 0:
                    raise
                unsent.extend(body for _, body in batch)
        return tuple(unsent)

    def depth(self) -> RecordQueueDepth:
        """Read how many messages wait, are in flight and are dead; the service counts approximately."""
        waiting, in_flight = self._count(self._url)
        dead = sum(self._count(self._dead_letter_url)) if self._dead_letter_url else 0
        return RecordQueueDepth(waiting, in_flight, dead)

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Take up to ten messages; each comes back by itself unless it is deleted in time."""
        with translated(f"receiving from {self._url}"):
            answer = self._clients.sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MESSAGES_AT_ONCE,
                WaitTimeSeconds=WAIT_SECONDS,
                MessageSystemAttributeNames=["SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"],
            )
        return tuple(_received(message) for message in answer.get("Messages", []))

    def delete(self, message: ReceivedMessage) -> None:
        """Take a received message off the queue for good."""
        with translated(f"deleting from {self._url}"):
            self._clients.sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message.handle)

    def _send(self, batch: Sequence[tuple[str, str]]) -> list[str]:
        entries: list[Any] = [
            {"Id": str(number), "MessageBody": body, "MessageGroupId": fair_group(group)}
            for number, (group, body) in enumerate(batch)
        ]
        with translated(f"sending {len(batch)} messages to {self._url}"):
            answer = self._clients.sqs.send_message_batch(QueueUrl=self._url, Entries=entries)
        return [batch[int(failure["Id"])][1] for failure in answer.get("Failed", [])]

    def _count(self, url: str) -> tuple[int, int]:
        with translated(f"counting {url}"):
            answer = self._clients.sqs.get_queue_attributes(
                QueueUrl=url,
                AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
            )
        attributes: dict[Any, str] = dict(answer.get("Attributes", {}))
        return (
            int(attributes.get("ApproximateNumberOfMessages", 0)),
            int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
        )


def fair_group(group: str) -> str:
    """Return the group as SQS takes it: itself when its characters and length allow, else its hash."""
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
