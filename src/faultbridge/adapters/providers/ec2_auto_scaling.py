"""Replacement through an EC2 Auto Scaling group: give the instance up, the group launches a successor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
)
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws_errors import code_of, is_outage, is_throttle, message_of, translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import Answer, Candidate, Capacity, Evidence, Presence, ProviderFailure

INSTANCES_AT_ONCE = 200
GONE_STATES = frozenset({"shutting-down", "terminated"})
LEAVING = "Terminat"
UNKNOWN_INSTANCE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceIDNotFound"})

FAILURES: Mapping[str, ProviderFailure] = {
    "AccessDenied": ProviderFailure.PERMISSION_DENIED,
    "AccessDeniedException": ProviderFailure.PERMISSION_DENIED,
    "AuthFailure": ProviderFailure.PERMISSION_DENIED,
    "OperationNotPermitted": ProviderFailure.PERMISSION_DENIED,
    "UnauthorizedOperation": ProviderFailure.PERMISSION_DENIED,
    "InsufficientCapacity": ProviderFailure.CAPACITY,
    "InsufficientHostCapacity": ProviderFailure.CAPACITY,
    "InsufficientInstanceCapacity": ProviderFailure.CAPACITY,
    "InsufficientReservedInstanceCapacity": ProviderFailure.CAPACITY,
    "InstanceLimitExceeded": ProviderFailure.CAPACITY,
    "MaxSpotInstanceCountExceeded": ProviderFailure.CAPACITY,
    "VcpuLimitExceeded": ProviderFailure.CAPACITY,
    "InvalidInstanceID.NotFound": ProviderFailure.NOT_FOUND,
    "IncorrectInstanceState": ProviderFailure.CONFLICT,
    "ResourceContention": ProviderFailure.CONFLICT,
    "ScalingActivityInProgress": ProviderFailure.CONFLICT,
}

# The Auto Scaling service has one code for many things; its words tell them apart. First fragment found decides.
VALIDATION_WORDS: Sequence[tuple[str, ProviderFailure]] = (
    ("not found", ProviderFailure.NOT_FOUND),
    ("no managed instance", ProviderFailure.NOT_FOUND),
    ("not part of auto scaling group", ProviderFailure.NOT_FOUND),
    ("protect", ProviderFailure.PERMISSION_DENIED),
    ("not authorized", ProviderFailure.PERMISSION_DENIED),
    ("capacity", ProviderFailure.CAPACITY),
    ("lifecyclestate", ProviderFailure.CONFLICT),
    ("is not in", ProviderFailure.CONFLICT),
)


class AutoScalingProvider:
    """A Provider for seats that are filled by Auto Scaling groups."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def replace(self, instance_id: str, token: str) -> Answer:  # noqa: ARG002 - the call itself can hit only once
        """Terminate the instance without lowering the group's size; one that is gone already is done.

        The call is never repeated by the client: what became of one that was lost is for a probe to find out.
        """
        try:
            answer = self._clients.autoscaling_once.terminate_instance_in_auto_scaling_group(
                InstanceId=instance_id, ShouldDecrementDesiredCapacity=False
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            failure = failure_of(error)
            if failure is ProviderFailure.NOT_FOUND and self.probe(instance_id) is Presence.GONE:
                return Answer(reason="the instance is gone already")
            return Answer(failure, str(translate(error, f"terminating {instance_id}")))
        return Answer(operation=answer.get("Activity", {}).get("ActivityId"))

    def probe(self, instance_id: str) -> Presence:
        """Tell whether the instance is there; one that is shutting down is gone, a stopped one is not."""
        try:
            with translated(f"looking for {instance_id}"):
                return self._presence(instance_id)
        except Transient:
            return Presence.UNKNOWN

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List the group's running instances launched in the second of the instant or later, oldest first.

        EC2 tells launch times in whole seconds. Raises Misconfigured when there is no such group.
        """
        earliest = launched_after.replace(microsecond=0)
        with translated(f"looking for instances of {group}"):
            found = list(self._running(self._members(group)))
        young = (candidate for candidate in found if candidate.launched_at >= earliest)
        return tuple(sorted(young, key=lambda candidate: (candidate.launched_at, candidate.instance_id)))

    def capacity(self, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - a group alone knows nothing
        """Tell that the seat's own reservation has its slot back once the instance is gone, where it runs in one.

        Nothing in the service tells of capacity otherwise.
        """
        with translated(f"looking for the reservation of {instance_id}"):
            answer = self._clients.ec2.describe_instances(InstanceIds=[instance_id])
        found = (one for each in answer["Reservations"] for one in each["Instances"])
        reservation = next((one.get("CapacityReservationId") for one in found), None)
        return Capacity(Evidence.OWN_RESERVATION, reason=reservation) if reservation else Capacity()

    def _presence(self, instance_id: str) -> Presence:
        try:
            answer = self._clients.ec2.describe_instances(InstanceIds=[instance_id])
        except ClientError as error:
            if code_of(error) in UNKNOWN_INSTANCE:
                return Presence.GONE
            raise
        states = [
            instance["State"]["Name"] for reservation in answer["Reservations"] for instance in reservation["Instances"]
        ]
        return Presence.GONE if all(state in GONE_STATES for state in states) else Presence.ALIVE

    def _members(self, group: str) -> Iterator[str]:
        answer = self._clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        if not answer["AutoScalingGroups"]:
            raise Misconfigured(f"there is no Auto Scaling group {group!r}")
        for instance in answer["AutoScalingGroups"][0]["Instances"]:
            if not instance["LifecycleState"].startswith(LEAVING):
                yield instance["InstanceId"]

    def _running(self, instance_ids: Iterator[str]) -> Iterator[Candidate]:
        pages = self._clients.ec2.get_paginator("describe_instances")
        while chunk := list(islice(instance_ids, INSTANCES_AT_ONCE)):
            # A filter, unlike a list of ids, does not fail when one of them has just gone.
            filters: list[Any] = [
                {"Name": "instance-id", "Values": chunk},
                {"Name": "instance-state-name", "Values": ["running"]},
            ]
            for page in pages.paginate(Filters=filters):
                for reservation in page["Reservations"]:
                    yield from map(_candidate, reservation["Instances"])


def failure_of(error: Exception) -> ProviderFailure:
    """Say why a call that changes something failed; AMBIGUOUS when it may have been done all the same."""
    if isinstance(error, ClientError):
        return _refusal(error)
    if isinstance(error, (ConnectTimeoutError, EndpointConnectionError)):
        return ProviderFailure.TIMEOUT
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return ProviderFailure.AMBIGUOUS
    return ProviderFailure.PROVIDER_ERROR


def _refusal(error: ClientError) -> ProviderFailure:
    if is_throttle(error):
        return ProviderFailure.THROTTLED
    code, words = code_of(error), message_of(error).lower()
    if code in FAILURES:
        return FAILURES[code]
    if is_outage(error):
        return ProviderFailure.AMBIGUOUS
    if code == "ValidationError":
        found = (failure for fragment, failure in VALIDATION_WORDS if fragment in words)
        return next(found, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PROVIDER_ERROR


def _candidate(instance: Any) -> Candidate:  # noqa: ANN401 - the stubs' type exists only for type checkers
    return Candidate(
        instance_id=instance["InstanceId"],
        launched_at=instance["LaunchTime"].astimezone(UTC),
        instance_type=instance.get("InstanceType"),
        private_dns=instance.get("PrivateDnsName"),
    )
