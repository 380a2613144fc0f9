"""List the instances of EC2 Auto Scaling groups, with their failure domains."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translate, translated
from faultbridge.adapters.ec2.instances import domains_by_instance, instances_where
from faultbridge.adapters.ec2.launch import ACTIVE, BLOCK
from faultbridge.model.cluster.config import ClusterConfig, GroupUpdate
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus, RepairSetting
from faultbridge.model.enums import DomainKind
from faultbridge.model.errors import Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Instance
from faultbridge.record.ports.inventory import OPT_OUT_TAG, GroupMember

# SQS reports the role id of the sender of a message, but EC2 names only the instance profile of an instance. The role
# id of the profile is therefore read from IAM, so that a sender can be compared with an instance.


class InstanceRoles:
    """Reads the role ids of instance profiles, and caches them for the life of the object.

    If a profile later gets another role, the object continues to return the old role.
    """

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def role_ids(self, clients: Clients, instances: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Return the role id by instance id; without those that have none or cannot be read yet (logged)."""
        arns = {str(one["InstanceId"]): (one.get("IamInstanceProfile") or {}).get("Arn") for one in instances}
        profiles = {instance: str(arn) for instance, arn in arns.items() if arn}
        for arn in sorted({*profiles.values()} - self._known.keys()):
            try:
                profile = clients.iam.get_instance_profile(InstanceProfileName=arn.rpartition("/")[2])
            except (ClientError, BotoCoreError) as error:
                reason = str(translate(error, f"reading the instance profile {arn}"))
                log_cause("node_role_unknown", reason=reason, level=logging.WARNING)
                continue
            roles = profile["InstanceProfile"]["Roles"]
            self._known[arn] = roles[0]["RoleId"] if roles else None
        return {instance: role for instance, arn in profiles.items() if (role := self._known.get(arn))}


# EKS shows node auto repair as `nodeRepairConfig.enabled` of a managed node group. Nodes of EKS Auto Mode and of
# Karpenter belong to no managed node group, so this module cannot read whether a controller repairs them.

UPDATING = "UPDATING"
MAX_LIFETIME = "maximum instance lifetime"
_ACCELERATED = re.compile(r"(?:p|g|gr|dl|trn|inf)\d")
"""The families of instance types with GPUs or other accelerators."""


def node_groups(clients: Clients, cluster: str) -> tuple[Mapping[str, Any], ...]:
    """Return the descriptions of all managed node groups of an EKS cluster; one call per node group."""
    with translated(f"reading the node groups of EKS cluster {cluster}"):
        pages = clients.eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
        names = [name for page in pages for name in page["nodegroups"]]
        answers = (clients.eks.describe_nodegroup(clusterName=cluster, nodegroupName=name) for name in names)
        return tuple(cast("Mapping[str, Any]", answer["nodegroup"]) for answer in answers)


def repair_setting(cluster: str, groups: Collection[Mapping[str, Any]]) -> RepairSetting | None:
    """Return the setting by which EKS repairs nodes of node groups; None if EKS repairs none of them.

    The setting names the node groups, the reasons that their overrides exclude, and the command that turns node auto
    repair off. Node groups that have only instance types without accelerators are ignored.
    """
    repairing = [str(one["nodegroupName"]) for one in groups if _repairs(one)]
    if not repairing:
        return None
    ignored = sorted({reason for one in groups if _repairs(one) for reason in _ignored_reasons(one)})
    but = f", not for {', '.join(ignored)}" if ignored else ""
    name = f"node auto repair of EKS (node group {', '.join(repairing)}{but})"
    command = (
        f"run aws eks update-nodegroup-config --cluster-name {cluster} --nodegroup-name {repairing[0]} "
        "--node-repair-config enabled=false"
    )
    return RepairSetting(True, name, f"{command}, also for the others" if len(repairing) > 1 else command)


def _ignored_reasons(node_group: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons for which overrides of a node group repair nothing; every other reason is still repaired."""
    overrides = (node_group.get("nodeRepairConfig") or {}).get("nodeRepairConfigOverrides") or ()
    yield from (str(one.get("nodeUnhealthyReason")) for one in overrides if one.get("repairAction") == "NoAction")


def replacing_groups(groups: Collection[Mapping[str, Any]]) -> RepairSetting | None:
    """Return the setting by which Auto Scaling replaces serving instances of these groups; None if it does not.

    Auto Scaling replaces instances that another service reports as unhealthy, that are older than a maximum, or that
    are in a zone from which traffic is shifted away. Every group replaces an instance whose EC2 status checks fail,
    unless its process `ReplaceUnhealthy` or `HealthCheck` is suspended; this is not reported.
    """
    rivals = {str(one["AutoScalingGroupName"]): kind for one in groups if (kind := _replaces_by(one))}
    if not rivals:
        return None
    group, kind = min(rivals.items())
    change = (
        f"run aws autoscaling suspend-processes --auto-scaling-group-name {group} --scaling-processes ReplaceUnhealthy"
    )
    if kind == MAX_LIFETIME:
        change = (
            f"run aws autoscaling update-auto-scaling-group --auto-scaling-group-name {group} --max-instance-lifetime 0"
        )
    others = ", also for the others" if len(rivals) > 1 else ""
    return RepairSetting(True, f"the {kind} of Auto Scaling group {', '.join(sorted(rivals))}", f"{change}{others}")


def _replaces_by(group: Mapping[str, Any]) -> str | None:
    if group.get("MaxInstanceLifetime"):
        return MAX_LIFETIME
    suspended = {one["ProcessName"] for one in group.get("SuspendedProcesses", ())}
    if suspended & {"ReplaceUnhealthy", "HealthCheck"}:
        return None
    zones = group.get("AvailabilityZoneImpairmentPolicy") or {}
    if zones.get("ZonalShiftEnabled") and zones.get("ImpairedZoneHealthCheckBehavior") == "ReplaceUnhealthy":
        return "zonal shift"
    others = sorted(set(str(group.get("HealthCheckType") or "EC2").split(",")) - {"EC2"})
    return f"health check ({', '.join(others)})" if others else None


def auto_scaling_groups(node_group: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the Auto Scaling groups of a node group."""
    resources = node_group.get("resources") or {}
    yield from (str(one["name"]) for one in resources.get("autoScalingGroups") or () if one.get("name"))


def running_updates(groups: Collection[Mapping[str, Any]]) -> dict[str, GroupUpdate]:
    """Return the update of each Auto Scaling group whose node group EKS updates; EKS reports no start."""
    updating = [one for one in groups if one.get("status") == UPDATING]
    return {
        name: GroupUpdate(f"EKS updates node group {one['nodegroupName']}")
        for one in updating
        for name in auto_scaling_groups(one)
    }


def _repairs(node_group: Mapping[str, Any]) -> bool:
    types = node_group.get("instanceTypes") or ()
    accelerated = not types or any(_ACCELERATED.match(one) for one in types)
    return bool((node_group.get("nodeRepairConfig") or {}).get("enabled")) and accelerated


IN_SERVICE = "InService"
INSTANCES_AT_ONCE = 100
GROUPS_AT_ONCE = 50
GONE = frozenset({"shutting-down", "terminated"})
REPLACING = frozenset({"Pending", "InProgress", "Cancelling", "RollbackInProgress"})
"""Statuses in which a refresh replaces instances. In the status `Baking`, a refresh has replaced all instances."""


class Ec2Inventory:
    """An Inventory that lists the instances of EC2 Auto Scaling groups."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._roles = InstanceRoles()

    def serving_instances(self, config: ClusterConfig, group: str) -> tuple[Instance, ...]:
        """Return the in-service instances of a group, sorted by name; raises Rejected `unknown_group`."""
        found = self.list_members(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"group not found: {group!r}; check the account, region and group name")
        return self.describe(config, group, {one: member for one, member in found[group].items() if member.serving})

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, GroupMember]]:
        """Return the members by group and instance id, 50 groups per call, without groups that do not exist."""
        names, clients = sorted(groups), self._clients.for_role(config.provider_role)
        return {
            group["AutoScalingGroupName"]: {one["InstanceId"]: _member(one) for one in group["Instances"]}
            for group in _groups(clients, names)
        }

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, GroupMember]) -> tuple[Instance, ...]:
        """Return descriptions of the group members that EC2 lists, sorted by name, 100 members per call.

        Without topology, the failure domains of an instance are its zone, placement group and capacity block.
        """
        clients = self._clients.for_role(config.provider_role)
        described = list(_instances(clients, "instance-id", members))
        roles = self._roles.role_ids(clients, described)
        topology = domains_by_instance(clients, described)
        found = (_instance(one, group, members, topology, roles) for one in described)
        return tuple(sorted(found, key=lambda instance: instance.name))

    def role_ids(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the ids of the IAM roles in the profiles of the instances, without those that cannot be read."""
        clients = self._clients.for_role(config.provider_role)
        return frozenset(self._roles.role_ids(clients, _instances(clients, "instance-id", instances)).values())

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the given instances that are terminating or terminated, or that EC2 does not list."""
        found = _instances(self._clients.for_role(config.provider_role), "instance-id", instances)
        return frozenset(instances) - {one["InstanceId"] for one in found if one["State"]["Name"] not in GONE}

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return the instances of the account and Region whose opt-out tag is `true`."""
        tagged = _instances(self._clients.for_role(config.provider_role), f"tag:{OPT_OUT_TAG}", ["true"])
        return frozenset(one["InstanceId"] for one in tagged)

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting | None:
        """Return the setting by which EKS itself repairs nodes of the cluster; None if EKS repairs none.

        EKS repairs the nodes of a managed node group if its node auto repair is on. Node groups that have only instance
        types without accelerators are ignored. The groups are not known yet; `provider_status` reports their settings.
        """
        if not config.eks_cluster:
            return None
        return repair_setting(config.eks_cluster, self._node_groups(config))

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return size and running update of the existing groups, and the repair setting of EKS, if it repairs."""
        names, clients = sorted(groups), self._clients.for_role(config.provider_role)
        described = {str(one["AutoScalingGroupName"]): one for one in _groups(clients, names)}
        # At a registration no group is known yet; here only the node groups with registered nodes count.
        managed = [
            one for one in self._node_groups(config) if not described.keys().isdisjoint(auto_scaling_groups(one))
        ]
        updates = {**running_refreshes(clients, described), **running_updates(managed)}
        statuses = {name: _group_status(one, updates.get(name)) for name, one in described.items()}
        rival = repair_setting(config.eks_cluster or "", managed) or replacing_groups(described.values())
        return ProviderStatus(groups=statuses, repair=rival)

    def block_ends(self, config: ClusterConfig) -> Mapping[str, datetime]:
        """Return when each active or expired capacity block of the account ends, by reservation id and block id."""
        clients = self._clients.for_role(config.provider_role)
        filters: Any = [{"Name": "state", "Values": [ACTIVE, "expired"]}]
        with translated("reading the capacity blocks"):
            pages = clients.ec2.get_paginator("describe_capacity_reservations").paginate(Filters=filters)
            found = [one for page in pages for one in page["CapacityReservations"]]
        blocks = [one for one in found if one.get("ReservationType") == BLOCK and one.get("EndDate")]
        ids = [
            (one.get(name), one["EndDate"]) for one in blocks for name in ("CapacityReservationId", "CapacityBlockId")
        ]
        return {str(block): end for block, end in ids if block}

    def _node_groups(self, config: ClusterConfig) -> tuple[Mapping[str, Any], ...]:
        return (
            node_groups(self._clients.for_role(config.provider_role), config.eks_cluster) if config.eks_cluster else ()
        )


def _groups(clients: Clients, names: Sequence[str]) -> Iterator[Any]:
    for at in range(0, len(names), GROUPS_AT_ONCE):
        part = list(names[at : at + GROUPS_AT_ONCE])
        with translated(f"reading {len(part)} Auto Scaling groups"):
            pages = clients.autoscaling.get_paginator("describe_auto_scaling_groups")
            for page in pages.paginate(AutoScalingGroupNames=part, PaginationConfig={"PageSize": 100}):
                yield from page["AutoScalingGroups"]


def running_refreshes(clients: Clients, groups: Iterable[str]) -> dict[str, GroupUpdate]:
    """Return the refreshes that replace instances now, by group; `Baking` has replaced all of them."""
    found: dict[str, GroupUpdate] = {}
    for group in sorted(groups):
        with translated(f"reading the instance refreshes of {group}"):
            # The latest refresh is listed first, and a group has only one at a time.
            answer = clients.autoscaling.describe_instance_refreshes(AutoScalingGroupName=group, MaxRecords=1)
        for one in answer["InstanceRefreshes"]:
            if one.get("Status") in REPLACING:
                text = f"instance refresh {one['InstanceRefreshId']} replaces its instances"
                found[group] = GroupUpdate(text, one.get("StartTime"))
    return found


def _instances(clients: Clients, name: str, values: Collection[str]) -> Iterator[Any]:
    """Yield the EC2 instances by a filter, 100 values per call."""
    ordered = sorted(values)
    for at in range(0, len(ordered), INSTANCES_AT_ONCE):
        part = ordered[at : at + INSTANCES_AT_ONCE]
        with translated(f"reading instances by {name}"):
            yield from instances_where(clients, {name: part})


def _group_status(one: Any, update: GroupUpdate | None) -> GroupStatus:  # noqa: ANN401 - the response of the service
    serving = sum(member["LifecycleState"] == IN_SERVICE for member in one["Instances"])
    return GroupStatus(one["DesiredCapacity"], serving >= one["DesiredCapacity"], update)


def _member(one: Any) -> GroupMember:  # noqa: ANN401 - the response of the service
    return GroupMember(one["InstanceId"], one["AvailabilityZone"], one["LifecycleState"] == IN_SERVICE)


def _instance(
    instance: Any,  # noqa: ANN401 - the response of the service
    group: str,
    members: Mapping[str, GroupMember],
    topology: Mapping[str, Mapping[str, str]],
    roles: Mapping[str, str],
) -> Instance:
    instance_id, dns = instance["InstanceId"], instance.get("PrivateDnsName") or ""
    name = dns.partition(".")[0] or instance_id
    block = instance.get("CapacityReservationId") if instance.get("InstanceLifecycle") == "capacity-block" else None
    known = {
        DomainKind.PLACEMENT_GROUP.value: (instance.get("Placement") or {}).get("GroupName"),
        DomainKind.CAPACITY_BLOCK.value: block,
        DomainKind.ZONE.value: members[instance_id].zone if instance_id in members else None,
    }
    return Instance(
        instance_id=instance_id,
        names=(name, dns) if dns and dns != name else (name,),
        group=group,
        instance_type=instance.get("InstanceType"),
        domains={**{kind: value for kind, value in known.items() if value}, **topology.get(instance_id, {})},
        launched_at=instance.get("LaunchTime"),
        role_id=roles.get(instance_id),
        has_all_domains=instance_id in topology,
    )
