"""Machines of an EC2 Auto Scaling group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Rejected
from faultbridge.services.inventory import Machine

IN_SERVICE = "InService"
INSTANCES_AT_ONCE = 100


class Ec2Inventory:
    """An Inventory that asks EC2 Auto Scaling who serves, and EC2 what each is called."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def machines(self, group: str) -> tuple[Machine, ...]:
        """List the instances in service of a group, by host name; `unknown_group` when there is no such group."""
        serving = self._serving(group)
        ids = list(serving)
        chunks = [ids[at : at + INSTANCES_AT_ONCE] for at in range(0, len(ids), INSTANCES_AT_ONCE)]
        described = (instance for chunk in chunks for instance in self._describe(chunk))
        machines = (_machine(instance, group, serving[instance["InstanceId"]]) for instance in described)
        return tuple(sorted(machines, key=lambda machine: machine.name))

    def _serving(self, group: str) -> dict[str, str]:
        with translated(f"reading the Auto Scaling group {group}"):
            answer = self._clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])
        if not answer["AutoScalingGroups"]:
            raise Rejected("unknown_group", f"there is no Auto Scaling group {group!r} here")
        found = answer["AutoScalingGroups"][0]["Instances"]
        return {one["InstanceId"]: one["AvailabilityZone"] for one in found if one["LifecycleState"] == IN_SERVICE}

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
