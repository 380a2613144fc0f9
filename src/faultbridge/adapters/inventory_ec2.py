"""Machines of an EC2 Auto Scaling group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Rejected
from faultbridge.services.inventory import Machine

IN_SERVICE = "InService"
INSTANCES_AT_ONCE = 100
GROUPS_AT_ONCE = 50


class Ec2Inventory:
    """An Inventory that asks EC2 Auto Scaling who serves, and EC2 what each is called."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def machines(self, group: str) -> tuple[Machine, ...]:
        """List the instances in service of a group, by host name; `unknown_group` when there is no such group."""
        serving = self.serving([group])
        if group not in serving:
            raise Rejected("unknown_group", f"there is no Auto Scaling group {group!r} here")
        return self.describe(group, serving[group])

    def serving(self, groups: Collection[str]) -> dict[str, dict[str, str]]:
        """Return the instances in service of each group that there is, with the zone of each; fifty groups a call."""
        named = sorted(groups)
        found: dict[str, dict[str, str]] = {}
        for at in range(0, len(named), GROUPS_AT_ONCE):
            for group in self._groups(named[at : at + GROUPS_AT_ONCE]):
                found[group["AutoScalingGroupName"]] = {
                    one["InstanceId"]: one["AvailabilityZone"]
                    for one in group["Instances"]
                    if one["LifecycleState"] == IN_SERVICE
                }
        return found

    def describe(self, group: str, serving: Mapping[str, str]) -> tuple[Machine, ...]:
        """Describe instances of a group, by host name; a hundred a call."""
        ids = list(serving)
        chunks = [ids[at : at + INSTANCES_AT_ONCE] for at in range(0, len(ids), INSTANCES_AT_ONCE)]
        described = (instance for chunk in chunks for instance in self._describe(chunk))
        machines = (_machine(instance, group, serving[instance["InstanceId"]]) for instance in described)
        return tuple(sorted(machines, key=lambda machine: machine.name))

    def _groups(self, names: Sequence[str]) -> Iterator[Any]:
        with translated(f"reading {len(names)} Auto Scaling groups"):
            pages = self._clients.autoscaling.get_paginator("describe_auto_scaling_groups")
            for page in pages.paginate(AutoScalingGroupNames=list(names), PaginationConfig={"PageSize": 100}):
                yield from page["AutoScalingGroups"]

    def _describe(self, ids: Sequence[str]) -> Iterator[Any]:
        with translated(f"reading {len(ids)} instances"):
            answer = self._clients.ec2.describe_instances(InstanceIds=list(ids))
        for reservation in answer["Reservations"]:
            yield from reservation["Instances"]


def _machine(instance: Any, group: str, zone: str) -> Machine:  # noqa: ANN401 - the service's own answer
    dns = instance.get("PrivateDnsName") or ""
    name = dns.partition(".")[0] or instance["InstanceId"]
    return Machine(
        instance_id=instance["InstanceId"],
        name=name,
        group=group,
        instance_type=instance.get("InstanceType"),
        domain=zone,
        aliases=(dns,) if dns and dns != name else (),
        launched_at=instance.get("LaunchTime"),
    )
