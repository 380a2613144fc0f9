"""Replacement through an EC2 Auto Scaling group: give the instance up, the group launches a successor."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws_errors import translate, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.providers.failures import failure_of
from faultbridge.adapters.providers.instances import age_of, candidate_of, presence_of
from faultbridge.errors import Misconfigured
from faultbridge.ports import Answer, Candidate, Capacity, Evidence, Presence, ProviderFailure

INSTANCES_AT_ONCE = 200
LEAVING = "Terminat"


class AutoScalingProvider:
    """A Provider for nodes that are filled by Auto Scaling groups."""

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
        return presence_of(self._clients, instance_id)

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List the group's running instances launched in the second of the instant or later, oldest first.

        EC2 tells launch times in whole seconds. Raises Misconfigured when there is no such group.
        """
        earliest = launched_after.replace(microsecond=0)
        with translated(f"looking for instances of {group}"):
            found = list(self._running(self._members(group)))
        young = (candidate for candidate in found if candidate.launched_at >= earliest)
        return tuple(sorted(young, key=age_of))

    def capacity(self, instance_id: str, group: str) -> Capacity:  # noqa: ARG002 - a group alone knows nothing
        """Tell that the node's own reservation has its slot back once the instance is gone, where it runs in one.

        Nothing in the service tells of capacity otherwise.
        """
        with translated(f"looking for the reservation of {instance_id}"):
            answer = self._clients.ec2.describe_instances(InstanceIds=[instance_id])
        found = (one for each in answer["Reservations"] for one in each["Instances"])
        reservation = next((one.get("CapacityReservationId") for one in found), None)
        return Capacity(Evidence.OWN_RESERVATION, reason=reservation) if reservation else Capacity()

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
                    yield from map(candidate_of, reservation["Instances"])
