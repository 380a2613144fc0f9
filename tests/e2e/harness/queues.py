"""Queues that observe an installation: sent records, the events of the bus, the pages of the topics."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faultbridge.record.ports.messaging import RecordQueue, RecordQueueDepth
from tests.local.stack import PrivateStack

ANY_SOURCE = {"source": [{"prefix": ""}]}


@dataclass(frozen=True, slots=True)
class RecordingQueue:
    """A queue that records its messages, so that a test can send them again."""

    queue: RecordQueue
    sent: list[tuple[str, str]] = field(default_factory=list)

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Record and send the messages."""
        self.sent.extend(messages)
        return self.queue.send(messages)

    def depth(self) -> RecordQueueDepth:
        """Return the depth of the queue."""
        return self.queue.depth()


@dataclass
class MessageQueue:
    """An SQS queue that a test reads."""

    stack: PrivateStack
    name: str
    url: str = ""
    arn: str = ""

    def __post_init__(self) -> None:
        self._sqs = self.stack.client("sqs")
        self.url = self._sqs.create_queue(QueueName=f"{self.name}-{uuid.uuid4().hex[:6]}")["QueueUrl"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn = answer["Attributes"]["QueueArn"]

    def drain(self) -> Iterator[Mapping[str, Any]]:
        """Receive and delete every message of the queue."""
        while True:
            answer = self._sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
            )
            messages = answer.get("Messages", [])
            if not messages:
                return
            handles = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
            self._sqs.delete_message_batch(QueueUrl=self.url, Entries=handles)
            yield from messages


@dataclass
class EventQueue(MessageQueue):
    """Collects the events of a bus that match a pattern; by default all events."""

    pattern: Mapping[str, Any] = field(default_factory=lambda: ANY_SOURCE)

    def __post_init__(self) -> None:
        super().__post_init__()
        events, rule, bus = self.stack.client("events"), self.url.rpartition("/")[2], self.stack.outputs["EventBusName"]
        events.put_rule(Name=rule, EventBusName=bus, EventPattern=json.dumps(self.pattern))
        failed = events.put_targets(Rule=rule, EventBusName=bus, Targets=[{"Id": "queue", "Arn": self.arn}])
        assert not failed["FailedEntryCount"]
        self._received: list[dict[str, Any]] = []

    def envelopes(self) -> list[dict[str, Any]]:
        """Return every delivery so far, in order."""
        self._received += [json.loads(message["Body"]) for message in self.drain()]
        return self._received

    def deliveries(self, cluster: str) -> dict[str, list[dict[str, Any]]]:
        """Return every delivery about a cluster so far, by event id."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for envelope in self.envelopes():
            metadata = envelope["detail"].get("metadata", {})
            if metadata.get("cluster") == cluster:
                found[metadata["event_id"]].append(envelope)
        return dict(found)


@dataclass
class PageQueue(MessageQueue):
    """Collects the pages of a topic that match a filter policy."""

    topic: str = ""
    filter_policy: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        attributes = {"RawMessageDelivery": "true"}
        if self.filter_policy:
            attributes["FilterPolicy"] = json.dumps(self.filter_policy)
        self.stack.client("sns").subscribe(
            TopicArn=self.topic, Protocol="sqs", Endpoint=self.arn, Attributes=attributes
        )
        self._pages: list[dict[str, Any]] = []

    def pages(self, cluster: str) -> list[dict[str, Any]]:
        """Return every page about a cluster so far."""
        self._pages += [json.loads(message["Body"]) for message in self.drain()]
        return [page for page in self._pages if page["location"]["cluster"] == cluster]
