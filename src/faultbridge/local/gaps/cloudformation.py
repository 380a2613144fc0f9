"""Patches for the settings and updates of resources by MiniStack's CloudFormation.

`queue_redrive`
AWS: `RedrivePolicy` of `AWS::SQS::Queue` is set on the queue.
MiniStack: CloudFormation drops the policy silently, although SQS applies a policy that is set later.
Here: CloudFormation sets the policy when it creates or updates a queue.

`subscription_redrive`
AWS: `RedrivePolicy` of `AWS::SNS::Subscription` is set on the subscription.
MiniStack: CloudFormation drops the policy silently. SNS stores a policy that is set through the API but never uses it:
a failed delivery is not retried.
Here: CloudFormation stores the policy, so that it can be read.

`table_settings`
AWS: `TimeToLiveSpecification` and `PointInTimeRecoverySpecification` of `AWS::DynamoDB::Table` are set on the table.
MiniStack: CloudFormation drops both settings silently, although DynamoDB applies the first one when it is set through
the API. CloudFormation reads `DeletionProtectionEnabled: "false"`, the value of a template parameter, as true.
Here: CloudFormation sets both settings when it creates or updates a table, and it reads booleans in text form.

`event_bus_policy`
AWS: `AWS::Events::EventBusPolicy` adds a statement to the policy of a bus.
MiniStack: CloudFormation does not support this type and fails the stack. No policy of a bus is evaluated.
Here: CloudFormation stores the statement, so that `DescribeEventBus` returns it. The statement is still not evaluated.

`change_set_deletion`
AWS: the answer of DeleteChangeSet has an empty result.
MiniStack: the result is missing, and boto3 raises KeyError.
Here: the result is there.

`failed_updates`
AWS: after a failed update, every resource is as it was before the update.
MiniStack: each resource that the update processed before the failure is deleted, even if it existed before the update.
The status is UPDATE_ROLLBACK_COMPLETE.
Here: a resource that existed before the update gets its previous properties back.

`stateful_updates`
AWS: an updated queue keeps its messages; an updated table keeps its items and its stream.
MiniStack: queues and tables cannot be updated; an empty resource with the same name is created instead.
Here: the contents of the old resource are copied to the new one; for a table, only if its key schema is unchanged.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

from faultbridge.local.gaps.patching import Gap, resolve, source_has, source_lacks, wrap

_HANDLERS = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS"
CREATE_QUEUE = f"{_HANDLERS}|AWS::SQS::Queue|create"
CREATE_SUBSCRIPTION = f"{_HANDLERS}|AWS::SNS::Subscription|create"
CREATE_TABLE = f"{_HANDLERS}|AWS::DynamoDB::Table|create"
CREATE_TOPIC = "ministack.services.cloudformation.provisioners:_sns_create"
QUEUES = "ministack.services.sqs:_queues"
TOPICS = "ministack.services.sns:_topics"
BUS_POLICIES = "ministack.services.eventbridge:_event_bus_policies"
BUS_POLICY = "AWS::Events::EventBusPolicy"
UPDATE_TTL = "ministack.services.dynamodb:_update_ttl"
UPDATE_BACKUPS = "ministack.services.dynamodb:_update_continuous_backups"
TTL_SETTINGS = "ministack.services.dynamodb:_ttl_settings"

Properties = dict[str, Any]
Provisioner = Callable[[str, Properties, str], tuple[str, dict[str, Any]]]


def _drops_queue_policy() -> bool:
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 3}
    url, _ = resolve(CREATE_QUEUE)("Probe", {"QueueName": "probe", "RedrivePolicy": policy}, "probe")
    return "RedrivePolicy" not in resolve(QUEUES)[url]["attributes"]


def _with_queue_policy(
    create: Provisioner, logical_id: str, properties: Properties, stack: str
) -> tuple[str, dict[str, Any]]:
    url, attributes = create(logical_id, properties, stack)
    if policy := properties.get("RedrivePolicy"):
        resolve(QUEUES)[url]["attributes"]["RedrivePolicy"] = _as_text(policy)
    return url, attributes


def _drops_subscription_policy() -> bool:
    topic, _ = resolve(CREATE_TOPIC)("Probe", {"TopicName": "probe"}, "probe")
    wanted = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": "arn", "RedrivePolicy": {"deadLetterTargetArn": "arn"}}
    resolve(CREATE_SUBSCRIPTION)("Probe", wanted, "probe")
    subscriptions = resolve(TOPICS)[topic]["subscriptions"]
    return all("RedrivePolicy" not in one["attributes"] for one in subscriptions)


def _with_subscription_policy(
    create: Provisioner, logical_id: str, properties: Properties, stack: str
) -> tuple[str, dict[str, Any]]:
    arn, attributes = create(logical_id, properties, stack)
    topic = resolve(TOPICS).get(properties.get("TopicArn", ""))
    if topic and (policy := properties.get("RedrivePolicy")):
        for subscription in topic["subscriptions"]:
            if subscription["arn"] == arn:
                subscription["attributes"]["RedrivePolicy"] = _as_text(policy)
    return arn, attributes


def _as_text(policy: str | dict[str, Any]) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)


def _drops_table_settings() -> bool:
    wanted = {"TableName": "probe", "TimeToLiveSpecification": {"AttributeName": "at", "Enabled": True}}
    resolve(CREATE_TABLE)("Probe", wanted, "probe")
    return "probe" not in resolve(TTL_SETTINGS)


def _with_table_settings(
    create: Provisioner, logical_id: str, properties: Properties, stack: str
) -> tuple[str, dict[str, Any]]:
    name, attributes = create(logical_id, _with_real_booleans(properties), stack)
    for setting, update in (
        ("TimeToLiveSpecification", UPDATE_TTL),
        ("PointInTimeRecoverySpecification", UPDATE_BACKUPS),
    ):
        if wanted := properties.get(setting):
            resolve(update)({"TableName": name, setting: _with_real_booleans(wanted)})
    return name, attributes


def _with_real_booleans(setting: dict[str, Any]) -> dict[str, Any]:
    # Template parameters are text; the text "false" would be truthy.
    return {key: value == "true" if value in ("true", "false") else value for key, value in setting.items()}


def _does_not_know_bus_policies() -> bool:
    return BUS_POLICY not in resolve(_HANDLERS)


def _add_bus_policies() -> None:
    resolve(_HANDLERS)[BUS_POLICY] = {"create": _create_bus_policy, "delete": _delete_bus_policy}


def _create_bus_policy(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, Any]]:
    bus, sid = properties.get("EventBusName", "default"), properties["StatementId"]
    policies = resolve(BUS_POLICIES)
    others = [one for one in policies.get(bus, {}).get("Statement", []) if one.get("Sid") != sid]
    statement = {"Sid": sid, **properties["Statement"]}
    policies[bus] = {"Version": "2012-10-17", "Statement": [*others, statement]}
    return f"{stack}-{logical_id}", {}


def _delete_bus_policy(_physical_id: str, properties: Properties) -> None:
    policies, bus = resolve(BUS_POLICIES), properties.get("EventBusName", "default")
    others = [one for one in policies.get(bus, {}).get("Statement", []) if one["Sid"] != properties["StatementId"]]
    policies[bus] = {"Version": "2012-10-17", "Statement": others}


DEPLOY = "ministack.services.cloudformation.changesets:_deploy_stack_async"
DELETE_CHANGE_SET = "ministack.services.cloudformation.changesets:_delete_change_set"
CHANGE_SET_ACTION = "ministack.services.cloudformation.handlers:_ACTION_HANDLERS|DeleteChangeSet"
DELETE = "ministack.services.cloudformation.stacks:_delete_resource"
UPDATE = "ministack.services.cloudformation.stacks:_update_resource"
STACKS = "ministack.services.cloudformation:_stacks"
QUEUE, CREATE_QUEUE = f"{_HANDLERS}|AWS::SQS::Queue", f"{_HANDLERS}|AWS::SQS::Queue|create"
TABLE, CREATE_TABLE = f"{_HANDLERS}|AWS::DynamoDB::Table", f"{_HANDLERS}|AWS::DynamoDB::Table|create"
TABLES = "ministack.services.dynamodb:_tables"

_ROLLING_BACK = "UPDATE_ROLLBACK_IN_PROGRESS"
_KEPT_OF_QUEUE = ("messages", "tags", "dedup_cache", "fifo_seq")
_KEPT_OF_TABLE = ("TableId", "CreationDateTime", "items", "ItemCount", "TableSizeBytes")
_KEPT_OF_STREAM = ("LatestStreamArn", "LatestStreamLabel")

Resources = dict[str, dict[str, Any]]
Deploy = Callable[..., Awaitable[None]]


_before: dict[str, Resources] = {}


def _restore_at_rollback() -> None:
    wrap(DEPLOY, _storing_resources)
    wrap(DELETE, _restoring_resources)


async def _storing_resources(deploy: Deploy, stack_name: str, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as in the emulator
    previous = inspect.signature(deploy).bind(stack_name, *arguments, **options).arguments.get("previous_stack")
    _before[stack_name] = (previous or {}).get("_resources", {})
    try:
        await deploy(stack_name, *arguments, **options)
    finally:
        _before.pop(stack_name, None)


def _restoring_resources(
    delete: Callable[..., None],
    kind: str,
    physical_id: str,
    properties: dict[str, Any],
    stack_name: str | None = None,
    logical_id: str | None = None,
) -> None:
    stack = resolve(STACKS).get(stack_name, {})
    old = _before.get(stack_name or "", {}).get(logical_id or "")
    if old is None or stack.get("StackStatus") != _ROLLING_BACK:
        delete(kind, physical_id, properties, stack_name, logical_id)
        return
    update = resolve(UPDATE)
    update(kind, physical_id, properties, old["Properties"], stack_name, logical_id, old["Attributes"])


def _recreates_queues_and_tables() -> bool:
    return all("update" not in resolve(handlers) for handlers in (QUEUE, TABLE))


def _keep_contents() -> None:
    wrap(CREATE_QUEUE, _keeping_messages)
    wrap(CREATE_TABLE, _keeping_items)


def _keeping_messages(
    create: Provisioner, logical_id: str, properties: dict[str, Any], stack: str
) -> tuple[str, dict[str, Any]]:
    queues = resolve(QUEUES)
    before = dict(queues.items())
    url, attributes = create(logical_id, properties, stack)
    if old := before.get(url):
        queues[url].update({key: old[key] for key in _KEPT_OF_QUEUE})
    return url, attributes


def _keeping_items(
    create: Provisioner, logical_id: str, properties: dict[str, Any], stack: str
) -> tuple[str, dict[str, Any]]:
    tables = resolve(TABLES)
    before = dict(tables.items())
    name, attributes = create(logical_id, properties, stack)
    old, new = before.get(name), tables[name]
    if old is None or old["KeySchema"] != new["KeySchema"]:
        return name, attributes
    new.update({key: old[key] for key in _KEPT_OF_TABLE})
    if old["LatestStreamArn"] and new["LatestStreamArn"]:
        # Event source mappings store the stream's ARN, and their positions count its records.
        new.update({key: old[key] for key in _KEPT_OF_STREAM})
        attributes = {**attributes, "StreamArn": old["LatestStreamArn"]}
    return name, attributes


def _with_result(delete: Callable[[Any], tuple[int, Any, bytes]], parameters: Any) -> tuple[int, Any, bytes]:  # noqa: ANN401 - as in the emulator
    status, headers, body = delete(parameters)
    return status, headers, body.replace(b"<ResponseMetadata>", b"<DeleteChangeSetResult/><ResponseMetadata>")


GAPS = (
    Gap("queue_redrive", (CREATE_QUEUE, QUEUES), _drops_queue_policy, lambda: wrap(CREATE_QUEUE, _with_queue_policy)),
    Gap(
        "subscription_redrive",
        (CREATE_SUBSCRIPTION, CREATE_TOPIC, TOPICS),
        _drops_subscription_policy,
        lambda: wrap(CREATE_SUBSCRIPTION, _with_subscription_policy),
    ),
    Gap(
        "table_settings",
        (CREATE_TABLE, UPDATE_TTL, UPDATE_BACKUPS, TTL_SETTINGS),
        _drops_table_settings,
        lambda: wrap(CREATE_TABLE, _with_table_settings),
    ),
    Gap("event_bus_policy", (_HANDLERS, BUS_POLICIES), _does_not_know_bus_policies, _add_bus_policies),
    Gap(
        "change_set_deletion",
        (DELETE_CHANGE_SET, CHANGE_SET_ACTION),
        source_lacks(DELETE_CHANGE_SET, "DeleteChangeSetResult"),
        lambda: wrap(CHANGE_SET_ACTION, _with_result),
    ),
    Gap(
        "failed_updates",
        (DEPLOY, DELETE, UPDATE, STACKS),
        source_has(DEPLOY, "for logical_id in reversed(created_in_this_run)"),
        _restore_at_rollback,
    ),
    Gap("stateful_updates", (CREATE_QUEUE, CREATE_TABLE, QUEUES, TABLES), _recreates_queues_and_tables, _keep_contents),
)
