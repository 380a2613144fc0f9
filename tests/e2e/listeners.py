"""Who listens at the ends: a tap on the bus that takes every event, and people's inboxes behind the topics."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.local.stack import PrivateStack

ANY_SOURCE = {"source": [{"prefix": ""}]}


@dataclass
class Mailbox:
    """A queue of SQS that a test reads empty; what was read stays here."""

    stack: PrivateStack
    name: str
    url: str = ""
    arn: str = ""

    def __post_init__(self) -> None:
        self._sqs = self.stack.client("sqs")
        self.url = self._sqs.create_queue(QueueName=f"{self.name}-{uuid.uuid4().hex[:6]}")["QueueUrl"]
        asked = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        self.arn = asked["Attributes"]["QueueArn"]

    def drain(self) -> Iterator[Mapping[str, Any]]:
        """Take every message that is there."""
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
class Tap(Mailbox):
    """Every event of a bus, or those that one pattern picks, by event id and delivery."""

    pattern: Mapping[str, Any] = field(default_factory=lambda: ANY_SOURCE)

    def __post_init__(self) -> None:
        super().__post_init__()
        events, rule, bus = self.stack.client("events"), self.url.rpartition("/")[2], self.stack.outputs["EventBusName"]
        events.put_rule(Name=rule, EventBusName=bus, EventPattern=json.dumps(self.pattern))
        failed = events.put_targets(Rule=rule, EventBusName=bus, Targets=[{"Id": "tap", "Arn": self.arn}])
        assert not failed["FailedEntryCount"]
        self._seen: list[dict[str, Any]] = []

    def envelopes(self) -> list[dict[str, Any]]:
        """Every delivery so far, in order."""
        self._seen += [json.loads(message["Body"]) for message in self.drain()]
        return self._seen

    def deliveries(self, cluster: str) -> dict[str, list[dict[str, Any]]]:
        """Every delivery about a cluster so far, by event id."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for envelope in self.envelopes():
            metadata = envelope["detail"].get("metadata", {})
            if metadata.get("cluster") == cluster:
                found[metadata["event_id"]].append(envelope)
        return dict(found)


@dataclass
class Inbox(Mailbox):
    """The pages that a subscription with a filter policy lets through."""

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
        """Every page about a cluster so far, as the program behind the queue reads it."""
        self._pages += [json.loads(message["Body"]) for message in self.drain()]
        return [page for page in self._pages if page["place"]["cluster"] == cluster]
