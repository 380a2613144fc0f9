"""Machines of an EC2 Auto Scaling group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.instance_topology import domains_of
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.failure_domains import DomainKind
from faultbridge.errors import Misconfigured, Rejected, Transient
from faultbridge.registry.instances import OPT_OUT_TAG, Machine, Member

IN_SERVICE = "InService"
INSTANCES_AT_ONCE = 100
GROUPS_AT_ONCE = 50
GONE = frozenset({"shutting-down", "terminated"})


class Ec2Inventory:
    """An Inventory that asks EC2 Auto Scaling who serves, and EC2 what each is called and where it is."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def machines(self, config: ClusterConfig, group: str) -> tuple[Machine, ...]:
        """List the instances in service of a group, by host name; `unknown_group` when there is no such group."""
        found = self.look(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"there is no Auto Scaling group {group!r} here")
        return self.describe(config, group, {one: member for one, member in found[group].items() if member.serving})

    def look(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, Member]]:
        """Return the members of each group that there is; fifty groups a call."""
        named, clients = sorted(groups), self._of(config)
        found: dict[str, dict[str, Member]] = {}
        for at in range(0, len(named), GROUPS_AT_ONCE):
            for group in _groups(clients, named[at : at + GROUPS_AT_ONCE]):
                found[group["AutoScalingGroupName"]] = {one["InstanceId"]: _member(one) for one in group["Instances"]}
        return found

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, Member]) -> tuple[Machine, ...]:
        """Describe members of a group, by host name; two calls a hundred."""
        clients = self._of(config)
        described = _instances(clients, "instance-id", members)
        shared = _shared(clients, members)
        machines = (_machine(one, group, shared.get(one["InstanceId"], {})) for one in described)
        return tuple(sorted(machines, key=lambda machine: machine.name))

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the instances that EC2 terminates, or does not know any more."""
        here = {
            one["InstanceId"]
            for one in _instances(self._of(config), "instance-id", instances)
            if one["State"]["Name"] not in GONE
        }
        return frozenset(instances) - here

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return the instances that carry the tag; one call, whatever the number of the others."""
        tagged = _instances(self._of(config), f"tag:{OPT_OUT_TAG}", ["true"])
        return frozenset(one["InstanceId"] for one in tagged)

    def _of(self, config: ClusterConfig) -> Clients:
        return self._clients.assuming(config.provider_role) if config.provider_role else self._clients


def _groups(clients: Clients, names: Sequence[str]) -> Iterator[Any]:
    with translated(f"reading {len(names)} Auto Scaling groups"):
        pages = clients.autoscaling.get_paginator("describe_auto_scaling_groups")
        for page in pages.paginate(AutoScalingGroupNames=list(names), PaginationConfig={"PageSize": 100}):
            yield from page["AutoScalingGroups"]


def _instances(clients: Clients, name: str, values: Collection[str]) -> Iterator[Any]:
    """Read instances by a filter, which leaves out those that are not there, where naming them would be an error."""
    wanted = sorted(values)
    for at in range(0, len(wanted), INSTANCES_AT_ONCE):
        part = wanted[at : at + INSTANCES_AT_ONCE]
        with translated(f"reading instances by {name}"):
            pages = clients.ec2.get_paginator("describe_instances")
            for page in pages.paginate(Filters=[{"Name": name, "Values": part}]):
                for reservation in page["Reservations"]:
                    yield from reservation["Instances"]


def _shared(clients: Clients, members: Mapping[str, Member]) -> dict[str, dict[str, str]]:
    """Return the failure domains of members; where the topology is out of reach their zones stand alone."""
    zones = {one: {DomainKind.ZONE.value: member.zone} for one, member in members.items() if member.zone}
    try:
        told = domains_of(clients, members)
    except (Transient, Misconfigured):
        told = {}
    return {one: {**zones.get(one, {}), **told.get(one, {})} for one in members}


def _member(one: Any) -> Member:  # noqa: ANN401 - the service's own answer
    return Member(one["InstanceId"], one["AvailabilityZone"], one["LifecycleState"] == IN_SERVICE)


def _machine(instance: Any, group: str, domains: Mapping[str, str]) -> Machine:  # noqa: ANN401 - the service's own answer
    dns = instance.get("PrivateDnsName") or ""
    name = dns.partition(".")[0] or instance["InstanceId"]
    placed = (instance.get("Placement") or {}).get("GroupName")
    block = instance.get("CapacityReservationId") if instance.get("InstanceLifecycle") == "capacity-block" else None
    more = {DomainKind.PLACEMENT_GROUP.value: placed, DomainKind.CAPACITY_BLOCK.value: block}
    return Machine(
        instance_id=instance["InstanceId"],
        name=name,
        group=group,
        instance_type=instance.get("InstanceType"),
        domains={**{kind: value for kind, value in more.items() if value}, **domains},
        aliases=(dns,) if dns and dns != name else (),
        launched_at=instance.get("LaunchTime"),
    )
