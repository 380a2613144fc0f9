"""The dead-letter destination of a queue made by CloudFormation.

AWS: `RedrivePolicy` of `AWS::SQS::Queue` is set on the queue.
MiniStack: it is dropped without a word, although its SQS obeys one that is set afterwards.
Here: the provisioner sets it, at creation and at each update.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

CREATE = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS|AWS::SQS::Queue|create"
QUEUES = "ministack.services.sqs:_queues"

Provisioner = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (CREATE, QUEUES)


def is_open() -> bool:
    """Whether the emulator still drops the policy."""
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 3}
    url, _ = patch.resolve(CREATE)("Probe", {"QueueName": "probe", "RedrivePolicy": policy}, "probe")
    return "RedrivePolicy" not in patch.resolve(QUEUES)[url]["attributes"]


def apply() -> None:
    """Set the policy whenever CloudFormation makes or remakes a queue."""
    patch.replace(CREATE, _with_redrive_policy)


def _with_redrive_policy(create: Provisioner) -> Provisioner:
    def create_queue(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        url, attributes = create(logical_id, properties, stack)
        if policy := properties.get("RedrivePolicy"):
            text = policy if isinstance(policy, str) else json.dumps(policy)
            patch.resolve(QUEUES)[url]["attributes"]["RedrivePolicy"] = text
        return url, attributes

    return create_queue
