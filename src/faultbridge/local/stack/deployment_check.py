"""Compare the deployed resources of an embedded stack with the template.

The emulated CloudFormation reports success even if it ignores a setting. This check finds missing dead-letter queues,
tables without expiry of items, and functions that do not start. Without the check, a missing dead-letter queue is
noticed only at the first bad record.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.local import clients
from faultbridge.local.stack import sam
from faultbridge.local.stack.files import StackState

_FUNCTION = ("AWS::Lambda::Function", "AWS::Serverless::Function")

Template = dict[str, Any]


def check(state: StackState, template: Template) -> None:
    """Raise `Misconfigured` if dead-letter queues or item expiry are missing or a function cannot start.

    The error names the first difference between the deployed resources and the template.
    """
    types = {resource["Type"] for resource in template.get("Resources", {}).values()}
    physical_ids = dict(clients.resources(state, *types))
    differences = [
        *_queues(state, template, physical_ids),
        *_tables(state, template, physical_ids),
        *_subscriptions(state, template, physical_ids),
        *_functions(state),
    ]
    if differences:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise Misconfigured(
            f"the deployed stack differs from the template: {differences[0]}{more}; fix the template or local/gaps"
        )


def _queues(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sqs = clients.stack_client("sqs", state)
    for logical_id, properties in sam.resources(template, "AWS::SQS::Queue"):
        if "RedrivePolicy" in properties and logical_id in physical_ids:
            url = physical_ids[logical_id]
            found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            policy = clients.json_attribute(found.get("RedrivePolicy", ""))
            if "deadLetterTargetArn" not in policy:
                yield f"{logical_id} has no dead-letter queue"


def _tables(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    dynamodb = clients.stack_client("dynamodb", state)
    for logical_id, properties in sam.resources(template, "AWS::DynamoDB::Table"):
        wanted = properties.get("TimeToLiveSpecification", {}).get("AttributeName")
        if wanted and logical_id in physical_ids:
            found = dynamodb.describe_time_to_live(TableName=physical_ids[logical_id])["TimeToLiveDescription"]
            name = found.get("AttributeName")
            # A name from a template parameter cannot be compared here; only its presence is checked.
            if not name or (isinstance(wanted, str) and name != wanted):
                yield f"{logical_id} does not expire items by {wanted}"


def _subscriptions(state: StackState, template: Template, physical_ids: dict[str, str]) -> Iterator[str]:
    sns = clients.stack_client("sns", state)
    for logical_id, properties in sam.resources(template, "AWS::SNS::Subscription"):
        if "RedrivePolicy" in properties and logical_id in physical_ids:
            found = sns.get_subscription_attributes(SubscriptionArn=physical_ids[logical_id])["Attributes"]
            if not found.get("RedrivePolicy"):
                yield f"{logical_id} has no dead-letter queue"


def _functions(state: StackState) -> Iterator[str]:
    """Start every Lambda function, and yield one line of text for each function that fails to start.

    The started functions keep running, so that the first records need not wait for their start.
    """
    names = [name for _, name in clients.resources(state, *_FUNCTION)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        for name, error in zip(names, pool.map(lambda name: _start_worker(state, name), names), strict=True):
            if error:
                yield f"{name} cannot be started: {error}"


def _start_worker(state: StackState, name: str) -> str:
    event_plane = next(one for one in state.emulators if one.name == "event-plane")
    url = f"{event_plane.endpoint}/_faultbridge/warm"
    return str(clients.http_call(url, {"function": name}, timeout=60.0)["error"])
