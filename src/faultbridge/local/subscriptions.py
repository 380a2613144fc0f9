"""Collect published events and pages in SQS queues, for the demo and for tests.

A subscription uses rules, topics and queues, as a customer would. Faultbridge does not depend on any subscription.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.local.clients import client
from faultbridge.model.values import replace

BATCH_SIZE = 10
WAIT_SECONDS = 1
TARGET = "queue"


@dataclass(frozen=True, slots=True)
class QueueSubscription:
    """An SQS queue that receives messages from an EventBridge rule or from SNS topics."""

    url: str
    arn: str
    environment: Mapping[str, str]
    rule: tuple[str, str] | None = None
    subscriptions: tuple[str, ...] = ()

    def collect(self, enough: Callable[[list[dict[str, Any]]], bool], seconds: float) -> list[dict[str, Any]]:
        """Receive and return messages until `enough(messages)` is true or the seconds are over."""
        found: list[dict[str, Any]] = []
        until = time.monotonic() + seconds
        while not enough(found) and time.monotonic() < until:
            found += self._receive()
        return found

    def remove(self) -> None:
        """Delete the rule, the topic subscriptions and the queue with its remaining messages."""
        if self.rule is not None:
            name, bus = self.rule
            events = client("events", self.environment)
            events.remove_targets(Rule=name, EventBusName=bus, Ids=[TARGET])
            events.delete_rule(Name=name, EventBusName=bus)
        for subscription in self.subscriptions:
            client("sns", self.environment).unsubscribe(SubscriptionArn=subscription)
        client("sqs", self.environment).delete_queue(QueueUrl=self.url)

    def _receive(self) -> Iterator[dict[str, Any]]:
        sqs = client("sqs", self.environment)
        answer = sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=BATCH_SIZE, WaitTimeSeconds=WAIT_SECONDS)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            yield json.loads(message["Body"])


def subscribe_to_events(environment: Mapping[str, str], outputs: Mapping[str, str], cluster: str) -> QueueSubscription:
    """Collect every event of a cluster in a new queue, through a rule on the event bus."""
    subscription = _create_queue(environment, f"{cluster}-events")
    events = client("events", environment)
    pattern = {"source": [outputs["EventSource"]], "detail": {"metadata": {"cluster": [cluster]}}}
    rule, bus = f"{cluster}-events", outputs["EventBusName"]
    events.put_rule(Name=rule, EventBusName=bus, EventPattern=json.dumps(pattern))
    target = {"Id": TARGET, "Arn": subscription.arn, "InputPath": "$.detail"}
    events.put_targets(Rule=rule, EventBusName=bus, Targets=[target])
    return replace(subscription, rule=(rule, bus))


def subscribe_to_pages(environment: Mapping[str, str], outputs: Mapping[str, str], cluster: str) -> QueueSubscription:
    """Collect every page about a cluster in a new queue, through the urgent and the notice topic."""
    subscription = _create_queue(environment, f"{cluster}-pages")
    sns = client("sns", environment)
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": json.dumps({"cluster": [cluster]})}
    arns = (
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=subscription.arn, Attributes=attributes)
        for topic in (outputs["UrgentTopicArn"], outputs["NoticeTopicArn"])
    )
    return replace(subscription, subscriptions=tuple(answer["SubscriptionArn"] for answer in arns))


def _create_queue(environment: Mapping[str, str], name: str) -> QueueSubscription:
    sqs = client("sqs", environment)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return QueueSubscription(url, arn, environment)
