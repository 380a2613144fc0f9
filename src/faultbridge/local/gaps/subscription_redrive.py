"""The dead-letter destination of a subscription made by CloudFormation.

AWS: `RedrivePolicy` of `AWS::SNS::Subscription` is set on the subscription.
MiniStack: it is dropped without a word, while one set through the API is kept (though never used: a delivery
that fails there is not tried again).
Here: the provisioner keeps it, so that what was asked for can be read back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

CREATE = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS|AWS::SNS::Subscription|create"
CREATE_TOPIC = "ministack.services.cloudformation.provisioners:_sns_create"
TOPICS = "ministack.services.sns:_topics"

Provisioner = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (CREATE, CREATE_TOPIC, TOPICS)


def is_open() -> bool:
    """Whether the emulator still drops the policy."""
    topic, _ = patch.resolve(CREATE_TOPIC)("Probe", {"TopicName": "probe"}, "probe")
    wanted = {
        "TopicArn": topic,
        "Protocol": "sqs",
        "Endpoint": "arn",
        "RedrivePolicy": {"deadLetterTargetArn": "arn"},
    }
    patch.resolve(CREATE)("Probe", wanted, "probe")
    return all("RedrivePolicy" not in one["attributes"] for one in patch.resolve(TOPICS)[topic]["subscriptions"])


def apply() -> None:
    """Keep the policy whenever CloudFormation makes a subscription."""
    patch.replace(CREATE, _with_redrive_policy)


def _with_redrive_policy(create: Provisioner) -> Provisioner:
    def create_subscription(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        arn, attributes = create(logical_id, properties, stack)
        topic = patch.resolve(TOPICS).get(properties.get("TopicArn", ""))
        if topic and (policy := properties.get("RedrivePolicy")):
            text = policy if isinstance(policy, str) else json.dumps(policy)
            for subscription in topic["subscriptions"]:
                if subscription["arn"] == arn:
                    subscription["attributes"]["RedrivePolicy"] = text
        return arn, attributes

    return create_subscription
