"""Checking that a deployment holds what its template asks for.

CloudFormation of the event plane reports success whatever it drops. What our gaps put back is asserted here
after each deployment, with all else that is known to vanish without a word: a stack without its dead-letter
queues would look well until the first bad record.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.local import clients, requests, template
from faultbridge.local.state import StackState

_FUNCTION = ("AWS::Lambda::Function", "AWS::Serverless::Function")


def check(state: StackState, asked: dict[str, Any]) -> None:
    """Raise `Misconfigured` that names the first thing which is not as the template asks."""
    physical = dict(clients.resources(state, *_types(asked)))
    broken = [
        *_queues(state, asked, physical),
        *_tables(state, asked, physical),
        *_subscriptions(state, asked, physical),
        *_functions(state),
    ]
    if broken:
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise Misconfigured(f"deployed, but not as written: {broken[0]}{more} (mend the template or local/gaps)")


def _types(asked: dict[str, Any]) -> set[str]:
    return {resource["Type"] for resource in asked.get("Resources", {}).values()}


def _queues(state: StackState, asked: dict[str, Any], physical: dict[str, str]) -> Iterator[str]:
    sqs = clients.of_state("sqs", state)
    for logical_id, properties in template.resources(asked, "AWS::SQS::Queue"):
        if "RedrivePolicy" in properties and logical_id in physical:
            found = sqs.get_queue_attributes(QueueUrl=physical[logical_id], AttributeNames=["All"])["Attributes"]
            policy = clients.json_attribute(found.get("RedrivePolicy", ""))
            if "deadLetterTargetArn" not in policy:
                yield f"{logical_id} has no dead-letter queue"


def _tables(state: StackState, asked: dict[str, Any], physical: dict[str, str]) -> Iterator[str]:
    dynamodb = clients.of_state("dynamodb", state)
    for logical_id, properties in template.resources(asked, "AWS::DynamoDB::Table"):
        wanted = properties.get("TimeToLiveSpecification", {}).get("AttributeName")
        if wanted and logical_id in physical:
            found = dynamodb.describe_time_to_live(TableName=physical[logical_id])["TimeToLiveDescription"]
            name = found.get("AttributeName")
            # A name that comes from a parameter is not known here; that there is one is.
            if not name or (isinstance(wanted, str) and name != wanted):
                yield f"{logical_id} does not expire items by {wanted}"


def _subscriptions(state: StackState, asked: dict[str, Any], physical: dict[str, str]) -> Iterator[str]:
    sns = clients.of_state("sns", state)
    for logical_id, properties in template.resources(asked, "AWS::SNS::Subscription"):
        if "RedrivePolicy" in properties and logical_id in physical:
            found = sns.get_subscription_attributes(SubscriptionArn=physical[logical_id])["Attributes"]
            if not found.get("RedrivePolicy"):
                yield f"{logical_id} has no dead-letter queue"


def _functions(state: StackState) -> Iterator[str]:
    """Functions that cannot be started; starting them all here also spares the first records their cold starts."""
    names = [name for _, name in clients.resources(state, *_FUNCTION)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        for name, error in zip(names, pool.map(lambda name: _start_worker(state, name), names), strict=True):
            if error:
                yield f"{name} cannot be started: {error}"


def _start_worker(state: StackState, name: str) -> str:
    event_plane = next(one for one in state.emulators if one.name == "event-plane")
    address = f"{event_plane.endpoint}/_faultbridge/warm"
    return str(requests.call(address, {"function": name}, timeout=60.0)["error"])
