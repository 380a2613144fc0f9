"""EC2 instances as providers see them: whether one is there, and what may take a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Transient
from faultbridge.ports import Candidate, Presence

GONE_STATES = frozenset({"shutting-down", "terminated"})
ALIVE_STATES = ["pending", "running", "stopping", "stopped"]
UNKNOWN_INSTANCE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceIDNotFound"})


def presence_of(clients: Clients, instance_id: str) -> Presence:
    """Tell whether the instance is there; one that is shutting down is gone, a stopped one is not."""
    try:
        with translated(f"looking for {instance_id}"):
            return _presence(clients, instance_id)
    except Transient:
        return Presence.UNKNOWN


def candidate_of(instance: Any) -> Candidate:  # noqa: ANN401 - the stubs' type exists only for type checkers
    """Take an instance as EC2 describes it."""
    return Candidate(
        instance_id=instance["InstanceId"],
        launched_at=instance["LaunchTime"].astimezone(UTC),
        instance_type=instance.get("InstanceType"),
        private_dns=instance.get("PrivateDnsName"),
        running=instance["State"]["Name"] == "running",
    )


def living(clients: Clients, named: Mapping[str, str]) -> Iterator[Any]:
    """Yield the instances that answer to every filter and are not gone; what was launched just now may be missing."""
    states = {"Name": "instance-state-name", "Values": ALIVE_STATES}
    filters: list[Any] = [states, *({"Name": name, "Values": [value]} for name, value in named.items())]
    for page in clients.ec2.get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def age_of(candidate: Candidate) -> tuple[Any, ...]:
    """Order candidates, the oldest first."""
    return candidate.launched_at, candidate.instance_id


def _presence(clients: Clients, instance_id: str) -> Presence:
    try:
        answer = clients.ec2.describe_instances(InstanceIds=[instance_id])
    except ClientError as error:
        if code_of(error) in UNKNOWN_INSTANCE:
            return Presence.GONE
        raise
    states = [
        instance["State"]["Name"] for reservation in answer["Reservations"] for instance in reservation["Instances"]
    ]
    return Presence.GONE if all(state in GONE_STATES for state in states) else Presence.ALIVE
