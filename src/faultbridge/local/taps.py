"""Taps: what the bus carries and who is paged, collected in queues, for the demo and for tests.

Rule, subscription and queues are the customer's kind: nothing of the product knows that they are there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from faultbridge.local.clients import client

AT_ONCE = 10
WAIT_SECONDS = 1
TARGET = "tap"


@dataclass(frozen=True, slots=True)
class Tap:
    """One queue that collects messages; each is told once, however often it was delivered."""

    url: str
    arn: str
    environment: Mapping[str, str]
    rule: tuple[str, str] | None = None
    subscriptions: tuple[str, ...] = ()

    def collect(self, enough: Callable[[list[dict[str, Any]]], bool], seconds: float) -> list[dict[str, Any]]:
        """Take messages until there are enough or time is up."""
        found: list[dict[str, Any]] = []
        until = time.monotonic() + seconds
        while not enough(found) and time.monotonic() < until:
            found += self._receive()
        return found

    def remove(self) -> None:
        """Take the tap away again, and what was left in it."""
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
        answer = sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=AT_ONCE, WaitTimeSeconds=WAIT_SECONDS)
        for message in answer.get("Messages", []):
            sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            yield json.loads(message["Body"])


def tap_events(environment: Mapping[str, str], outputs: Mapping[str, str], cluster: str) -> Tap:
    """Collect every event of a cluster, as a customer's rule with a queue behind it would."""
    tap = _queue(environment, f"{cluster}-events")
    events = client("events", environment)
    pattern = {"source": [outputs["EventSource"]], "detail": {"metadata": {"cluster": [cluster]}}}
    bus = outputs["EventBusName"]
    events.put_rule(Name=f"{cluster}-tap", EventBusName=bus, EventPattern=json.dumps(pattern))
    target = {"Id": TARGET, "Arn": tap.arn, "InputPath": "$.detail"}
    events.put_targets(Rule=f"{cluster}-tap", EventBusName=bus, Targets=[target])
    return replace(tap, rule=(f"{cluster}-tap", bus))


def tap_pages(environment: Mapping[str, str], outputs: Mapping[str, str], cluster: str) -> Tap:
    """Collect every page about a cluster, as a pager that is subscribed to both topics would get it."""
    tap = _queue(environment, f"{cluster}-pages")
    sns = client("sns", environment)
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": json.dumps({"cluster": [cluster]})}
    arns = (
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=tap.arn, Attributes=attributes)["SubscriptionArn"]
        for topic in (outputs["UrgentTopicArn"], outputs["NoticeTopicArn"])
    )
    return replace(tap, subscriptions=tuple(arns))


def _queue(environment: Mapping[str, str], name: str) -> Tap:
    sqs = client("sqs", environment)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Tap(url, arn, environment)
