"""Patches for settings of new resources that MiniStack's CloudFormation drops or rejects.

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
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve

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


def _with_queue_policy(create: Provisioner) -> Provisioner:
    def create_queue(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, Any]]:
        url, attributes = create(logical_id, properties, stack)
        if policy := properties.get("RedrivePolicy"):
            resolve(QUEUES)[url]["attributes"]["RedrivePolicy"] = _as_text(policy)
        return url, attributes

    return create_queue


def _drops_subscription_policy() -> bool:
    topic, _ = resolve(CREATE_TOPIC)("Probe", {"TopicName": "probe"}, "probe")
    wanted = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": "arn", "RedrivePolicy": {"deadLetterTargetArn": "arn"}}
    resolve(CREATE_SUBSCRIPTION)("Probe", wanted, "probe")
    subscriptions = resolve(TOPICS)[topic]["subscriptions"]
    return all("RedrivePolicy" not in one["attributes"] for one in subscriptions)


def _with_subscription_policy(create: Provisioner) -> Provisioner:
    def create_subscription(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, Any]]:
        arn, attributes = create(logical_id, properties, stack)
        topic = resolve(TOPICS).get(properties.get("TopicArn", ""))
        if topic and (policy := properties.get("RedrivePolicy")):
            for subscription in topic["subscriptions"]:
                if subscription["arn"] == arn:
                    subscription["attributes"]["RedrivePolicy"] = _as_text(policy)
        return arn, attributes

    return create_subscription


def _as_text(policy: str | dict[str, Any]) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)


def _drops_table_settings() -> bool:
    wanted = {"TableName": "probe", "TimeToLiveSpecification": {"AttributeName": "at", "Enabled": True}}
    resolve(CREATE_TABLE)("Probe", wanted, "probe")
    return "probe" not in resolve(TTL_SETTINGS)


def _with_table_settings(create: Provisioner) -> Provisioner:
    def create_table(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, Any]]:
        name, attributes = create(logical_id, _with_real_booleans(properties), stack)
        for setting, update in (
            ("TimeToLiveSpecification", UPDATE_TTL),
            ("PointInTimeRecoverySpecification", UPDATE_BACKUPS),
        ):
            if wanted := properties.get(setting):
                resolve(update)({"TableName": name, setting: _with_real_booleans(wanted)})
        return name, attributes

    return create_table


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


GAPS = (
    Gap(
        "queue_redrive", (CREATE_QUEUE, QUEUES), _drops_queue_policy, lambda: replace(CREATE_QUEUE, _with_queue_policy)
    ),
    Gap(
        "subscription_redrive",
        (CREATE_SUBSCRIPTION, CREATE_TOPIC, TOPICS),
        _drops_subscription_policy,
        lambda: replace(CREATE_SUBSCRIPTION, _with_subscription_policy),
    ),
    Gap(
        "table_settings",
        (CREATE_TABLE, UPDATE_TTL, UPDATE_BACKUPS, TTL_SETTINGS),
        _drops_table_settings,
        lambda: replace(CREATE_TABLE, _with_table_settings),
    ),
    Gap("event_bus_policy", (_HANDLERS, BUS_POLICIES), _does_not_know_bus_policies, _add_bus_policies),
)
