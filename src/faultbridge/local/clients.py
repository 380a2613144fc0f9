"""Call an embedded stack, with boto3 clients and with HTTP requests to the emulators' own routes.

A `QueueSubscription` collects published events and pages, for the demo and for tests. It uses rules, topics and queues,
as a customer would.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultbridge.local.environment import client_environment, endpoint
from faultbridge.local.stack.files import StackState
from faultbridge.model.errors import Transient
from faultbridge.model.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_SECONDS = 300
"""The limit of one call in seconds: a synchronous invocation lasts as long as its function may run."""

# The user's proxy must not be used for loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def client(service: str, environment: Mapping[str, str]) -> Any:  # noqa: ANN401 - boto3 makes its classes at run time
    """Return a boto3 client for the endpoints, Region and credentials in `environment`."""
    import boto3
    from botocore.config import Config

    create: Any = boto3.client  # its type accepts literal service names only
    service_variable = f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"
    return create(
        "autoscaling" if service == "auto-scaling" else service,
        endpoint_url=environment.get(service_variable, environment["AWS_ENDPOINT_URL"]),
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 2}, connect_timeout=5, read_timeout=READ_SECONDS),
    )


def stack_client(service: str, state: StackState) -> Any:  # noqa: ANN401 - as above
    """Return a boto3 client that calls an embedded stack at the ports in `state`."""
    return client(service, client_environment(state.ports))


def outputs(state: StackState) -> dict[str, str]:
    """Return the stack's CloudFormation outputs; `ApiUrl`, if present, resolves on this machine."""
    found = stack_client("cloudformation", state).describe_stacks(StackName=state.stack)["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    # The host name of an API resolves only on AWS; the event plane serves its paths at its own address.
    return outputs | ({"ApiUrl": endpoint(state.ports.event_plane)} if "ApiUrl" in outputs else {})


def resources(state: StackState, *types: str) -> Iterator[tuple[str, str]]:
    """Yield the logical and the physical id of each deployed resource of the given types in the stack."""
    pages = stack_client("cloudformation", state).get_paginator("list_stack_resources").paginate(StackName=state.stack)
    for page in pages:
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] in types:
                yield resource["LogicalResourceId"], resource.get("PhysicalResourceId", "")


def ensure_secret(state: StackState, name: str, value: str) -> None:
    """Create a secret with this value in Secrets Manager; an existing secret keeps its value."""
    secrets = stack_client("secretsmanager", state)
    try:
        secrets.create_secret(Name=name, SecretString=value)
    except secrets.exceptions.ResourceExistsException:
        return


def ensure_topic(state: StackState, name: str) -> str:
    """Create an SNS topic, unless it exists, and return its ARN."""
    arn: str = stack_client("sns", state).create_topic(Name=name)["TopicArn"]
    return arn


def json_attribute(text: str) -> dict[str, Any]:
    """Return the JSON object in an AWS attribute, {} without one; raises ValueError for other text."""
    parsed = json.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def http_call(url: str, body: object = None, *, timeout: float = 30.0, headers: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
    """Send a GET request, or POST with a body, and return the JSON response; raises Transient without one."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - always http on loopback
        url, data=data, headers={"Content-Type": "application/json", **(headers or {})}
    )
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise Transient(f"{url} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except (OSError, ValueError) as error:
        raise Transient(f"{url} does not answer: {error}") from error


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
