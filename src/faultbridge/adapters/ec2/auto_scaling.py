"""Replace an instance of an EC2 Auto Scaling group: terminate it, and the group launches a successor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import AWS_ERRORS, translate, translated
from faultbridge.adapters.ec2.instances import failure_of, instances_where, launch_order, launched_instance_of
from faultbridge.adapters.ec2.launch import Ec2Instances
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.compute import CallResult, LaunchedInstance
from faultbridge.record.ports.presence import Presence

INSTANCES_AT_ONCE = 200
# Lifecycle states of instances that do not serve: on their way out, or waiting in the warm pool.
NOT_SERVING_PREFIXES = ("Terminat", "Warmed:")
NEEDED_PROCESSES = frozenset({"Launch", "Terminate"})
"""Processes of a group without which a terminated instance gets no successor."""
# The description of a launch, also of one from the warm pool, ends with the id of the instance.
LAUNCH = re.compile(r"Launching a new EC2 instance.*?(i-[0-9a-f]{8,17})\Z")


class AutoScalingProvider(Ec2Instances):
    """A Provider, which replaces instances, for nodes in EC2 Auto Scaling groups."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients, frees_slot=True)

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Terminate the instance, if it is not gone, by one call without retries; keep the group's size.

        After a lost response, `probe` determines whether the instance was terminated.
        """
        try:
            answer = self._clients.autoscaling_no_retry.terminate_instance_in_auto_scaling_group(
                InstanceId=instance_id, ShouldDecrementDesiredCapacity=False
            )
        except AWS_ERRORS as error:
            failure = failure_of(error)
            if failure is ProviderFailure.NOT_FOUND and self.probe(instance_id) is Presence.GONE:
                return CallResult(reason="the instance is already gone")
            return CallResult(failure, str(translate(error, f"terminating {instance_id}")))
        return CallResult(operation=answer.get("Activity", {}).get("ActivityId"))

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return possible successors: the group's running instances launched since `launched_after`.

        The instances are sorted by EC2's launch time, oldest first. Times are compared in whole seconds, because EC2
        rounds launch times to seconds. An instance from a warm pool is included if its launch activity in the group
        started at or after `launched_after`. Raises Misconfigured if the group does not exist.
        """
        earliest = launched_after.replace(microsecond=0)
        with translated(f"listing the instances of {group}"):
            described = self._described(group)
            found = list(self._running(_members(described)))
            late = (
                self._launched_by_activity(group, earliest) if described.get("WarmPoolConfiguration") else frozenset()
            )
        recent = (one for one in found if one.launched_at >= earliest or one.instance_id in late)
        return tuple(sorted(recent, key=launch_order))

    def why_no_launch(self, group: str, instance_id: str) -> str:  # noqa: ARG002 - the group decides for every instance
        """Return why the group launches no successor now; empty if nothing shows that.

        An operator can suspend the processes of a group. A group with fewer instances than it wants, whose newest
        activity is a failed launch, has no capacity or no permission: EC2 lists the newest activities first.
        """
        described = self._described(group)
        suspended = sorted(NEEDED_PROCESSES & {one["ProcessName"] for one in described.get("SuspendedProcesses", ())})
        if suspended:
            return f"{group}: suspended processes: {', '.join(suspended)}"
        if len(list(_members(described))) >= described["DesiredCapacity"]:
            return ""
        activities = self._clients.autoscaling.describe_scaling_activities(AutoScalingGroupName=group, MaxRecords=1)
        newest: Mapping[str, Any] = next(iter(activities["Activities"]), {})
        is_failed = newest.get("StatusCode") == "Failed" and "Launching" in newest.get("Description", "")
        return f"{group}: the last launch failed: {newest.get('StatusMessage', '')[:200]}" if is_failed else ""

    def _described(self, group: str) -> Mapping[str, Any]:
        answer = self._clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        if not answer["AutoScalingGroups"]:
            raise Misconfigured(f"Auto Scaling group not found: {group!r}")
        described: Mapping[str, Any] = answer["AutoScalingGroups"][0]
        return described

    def _launched_by_activity(self, group: str, earliest: datetime) -> frozenset[str]:
        """Return the instances launched since `earliest`; EC2 lists the newest activities first."""
        launched: set[str] = set()
        for page in self._clients.autoscaling.get_paginator("describe_scaling_activities").paginate(
            AutoScalingGroupName=group
        ):
            for activity in page["Activities"]:
                if activity["StartTime"] < earliest:
                    return frozenset(launched)
                if match := LAUNCH.match(activity.get("Description", "")):
                    launched.add(match[1])
        return frozenset(launched)

    def _running(self, instance_ids: Iterator[str]) -> Iterator[LaunchedInstance]:
        while chunk := list(islice(instance_ids, INSTANCES_AT_ONCE)):
            wanted = {"instance-id": chunk, "instance-state-name": ["running"]}
            yield from map(launched_instance_of, instances_where(self._clients, wanted))


def _members(described: Mapping[str, Any]) -> Iterator[str]:
    for instance in described["Instances"]:
        if not instance["LifecycleState"].startswith(NOT_SERVING_PREFIXES):
            yield instance["InstanceId"]
