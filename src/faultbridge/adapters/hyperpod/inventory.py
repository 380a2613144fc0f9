"""List the instances of SageMaker HyperPod clusters.

The instances run in an account that AWS owns, so EC2 does not list them, and all data comes from SageMaker. The logical
id of a node stays the same when its instance is replaced, so the node is named after this id. A node without a logical
id is named after its host or instance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.hyperpod.cluster import (
    FAILURE,
    LEAVING,
    RUNNING,
    HyperPodCluster,
    recovers_nodes,
    report_old_version,
    status_of,
)
from faultbridge.decode.hyperpod import failure_kind
from faultbridge.model.cluster.config import ClusterConfig, GroupUpdate
from faultbridge.model.cluster.state import GroupStatus, ProviderCondition, ProviderStatus, RepairSetting
from faultbridge.model.enums import ConditionKind, DomainKind
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.nodes import Instance
from faultbridge.record.ports.inventory import GroupMember

# The text of a condition is SageMaker's message about the node (status `Failure`) or the cluster. SageMaker gives no
# message about a group, so the text of its condition is the status.

CLUSTER_CONDITIONS: Mapping[str, ConditionKind] = {
    "Failed": ConditionKind.CLUSTER_FAILED,
    "RollingBack": ConditionKind.ROLLING_BACK,
}
GROUP_CONDITIONS: Mapping[str, ConditionKind] = {
    "Failed": ConditionKind.GROUP_FAILED,
    "Degraded": ConditionKind.LAUNCH_FAILED,
}
SYSTEM_UPDATING = "SystemUpdating"
SOFTWARE_UPDATES = frozenset({"InProgress", "RollbackInProgress"})
NO_MESSAGE = "SageMaker gives no reason"


def repair_setting(name: str, cluster: Mapping[str, Any]) -> RepairSetting:
    """Return whether HyperPod itself repairs nodes of a cluster, with the command that changes it."""
    repairs = recovers_nodes(cluster)
    other = "None" if repairs else "Automatic"
    command = f"run aws sagemaker update-cluster --cluster-name {name} --node-recovery {other}"
    return RepairSetting(repairs, "hyperpod", command)


def status_of_cluster(name: str, cluster: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> ProviderStatus:
    """Return the status of a cluster from its description and the summaries of its nodes."""
    by_group: dict[str, list[Mapping[str, Any]]] = {}
    for node in nodes:
        by_group.setdefault(str(node.get("InstanceGroupName")), []).append(node)
    groups = {str(group["InstanceGroupName"]): group for group in cluster.get("InstanceGroups") or ()}
    return ProviderStatus(
        tuple(_conditions(cluster, groups, by_group)),
        {group: _group_status(cluster, described, by_group.get(group, [])) for group, described in groups.items()},
        repair_setting(name, cluster),
    )


def _conditions(
    cluster: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Any]],
    by_group: Mapping[str, Iterable[Mapping[str, Any]]],
) -> Iterator[ProviderCondition]:
    status = str(cluster.get("ClusterStatus"))
    if status in CLUSTER_CONDITIONS:
        yield ProviderCondition(CLUSTER_CONDITIONS[status], cluster.get("FailureMessage") or NO_MESSAGE)
    for name, group in groups.items():
        for node in by_group.get(name, ()):
            if status_of(node) == FAILURE:
                message = (node.get("InstanceStatus") or {}).get("Message") or NO_MESSAGE
                yield ProviderCondition(failure_kind(message), message, name)
        if group.get("Status") in GROUP_CONDITIONS:
            yield ProviderCondition(GROUP_CONDITIONS[str(group["Status"])], f"{group['Status']}; {NO_MESSAGE}", name)


def _group_status(
    cluster: Mapping[str, Any], group: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
) -> GroupStatus:
    desired, running = int(group.get("TargetCount") or 0), sum(status_of(node) == RUNNING for node in nodes)
    # A node in any other status runs no jobs but keeps its instance, also in a status that SageMaker adds later.
    idle = (node for node in nodes if status_of(node) not in {RUNNING, *LEAVING})
    occupied = frozenset(str(node["InstanceId"]) for node in idle if "InstanceId" in node)
    return GroupStatus(desired, running >= desired, _update(cluster, group), occupied)


def _update(cluster: Mapping[str, Any], group: Mapping[str, Any]) -> GroupUpdate | None:
    """Return the software update that runs on a group or on the whole cluster; SageMaker reports no start."""
    if SYSTEM_UPDATING in {cluster.get("ClusterStatus"), group.get("Status")}:
        return GroupUpdate(f"HyperPod updates the software ({SYSTEM_UPDATING})")
    status = group.get("SoftwareUpdateStatus")
    return GroupUpdate(f"HyperPod updates the software ({status})") if status in SOFTWARE_UPDATES else None


MAX_DESCRIBED = 100
"""Maximum nodes of a group that one call of `describe` reads: SageMaker describes one node per call."""

SERVING = frozenset({"Running"})
"""Statuses of a node that serves. While HyperPod updates or tests a node, it has another status."""

KUBERNETES_PREFIX = "hyperpod-"
LOGICAL_ID_SHOWN = 8


class HyperPodInventory:
    """An Inventory that lists the instances of SageMaker HyperPod clusters.

    The inventory sync of a cluster first calls `provider_status`, which lists the nodes of the cluster and stores the
    list. `list_members` and `gone` use this list until the next call of `provider_status` or `serving_instances`.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._listed: dict[str, tuple[Mapping[str, Any], ...]] = {}

    def serving_instances(self, config: ClusterConfig, group: str) -> tuple[Instance, ...]:
        """Return the running instances of a group, the first 100 by id; raises Rejected `unknown_group`."""
        self._listed.pop(config.cluster, None)
        found = self.list_members(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"instance group not found or empty: {group!r} in {_name(config)}")
        return self.describe(config, group, {one: member for one, member in found[group].items() if member.serving})

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, GroupMember]]:
        """Return the members by group and instance id, without empty groups, from the stored list of nodes."""
        found: dict[str, dict[str, GroupMember]] = {}
        for one in self._nodes(config):
            if one.get("InstanceGroupName") in groups and one.get("InstanceId"):
                found.setdefault(one["InstanceGroupName"], {})[one["InstanceId"]] = _member(one)
        return found

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, GroupMember]) -> tuple[Instance, ...]:
        """Return descriptions sorted by name; each costs one call, so only the first 100 by id."""
        cluster = self._cluster(config)
        instances = [
            _instance(cluster.describe_node(instance_id), instance_id, group, members[instance_id])
            for instance_id in sorted(members)[:MAX_DESCRIBED]
        ]
        return tuple(sorted(instances, key=lambda instance: instance.name))

    def role_ids(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return none: every AWS session of a HyperPod node has the session name `SageMaker`."""
        del config, instances
        return frozenset()

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the given instances that no longer exist or are shutting down.

        An instance that the cluster neither lists nor describes no longer exists. To limit the calls to SageMaker, at
        most 100 unlisted instances are described, in order of id; further unlisted instances count as existing.
        """
        nodes = [one for one in self._nodes(config) if one.get("InstanceId")]
        listed = {one["InstanceId"]: status_of(one) in LEAVING for one in nodes}
        unlisted, cluster = sorted(set(instances) - set(listed))[:MAX_DESCRIBED], self._cluster(config)
        leaving = {one for one in instances if listed.get(one)}
        return frozenset(leaving | {one for one in unlisted if not cluster.describes(one)})

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return none: a HyperPod node has no EC2 tag. On EKS, a label excludes the node."""
        del config
        return frozenset()

    def block_ends(self, config: ClusterConfig) -> Mapping[str, datetime]:  # noqa: ARG002 - the instances use training plans
        """Return no capacity block: the instances run in an account of AWS."""
        return {}

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting:
        """Return the setting that decides whether HyperPod itself repairs faulty nodes of the cluster."""
        return repair_setting(_name(config), self._cluster(config).describe())

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """List the nodes, and return the conditions, the status of all groups and the repair setting."""
        del groups
        report_old_version()
        self._listed.pop(config.cluster, None)
        cluster = self._cluster(config)
        described, self._listed[config.cluster] = cluster.describe(), tuple(cluster.nodes())
        return status_of_cluster(_name(config), described, self._listed[config.cluster])

    def _nodes(self, config: ClusterConfig) -> Sequence[Mapping[str, Any]]:
        listed = self._listed.get(config.cluster)
        return listed if listed is not None else tuple(self._cluster(config).nodes())

    def _cluster(self, config: ClusterConfig) -> HyperPodCluster:
        return HyperPodCluster(self._clients.for_role(config.provider_role), _name(config))


def _name(config: ClusterConfig) -> str:
    if not config.hyperpod_cluster:
        raise Misconfigured(
            f"no HyperPod cluster is registered for {config.cluster}; run cluster set --hyperpod-cluster NAME"
        )
    return config.hyperpod_cluster


def _member(one: Any) -> GroupMember:  # noqa: ANN401 - the response of the service
    return GroupMember(one["InstanceId"], None, status_of(one) in SERVING, one.get("NodeLogicalId"))


def _instance(one: Any, instance: str, group: str, member: GroupMember) -> Instance:  # noqa: ANN401 - the response of the service
    dns = one.get("PrivateDnsHostname") or ""
    host, slot = dns.partition(".")[0], one.get("NodeLogicalId") or member.slot
    domains = {
        DomainKind.ULTRASERVER: (one.get("UltraServerInfo") or {}).get("Id"),
        DomainKind.ZONE: (one.get("Placement") or {}).get("AvailabilityZone"),
    }
    # The logical id stays the same when the instance is replaced. Older clusters have none.
    name = f"{group}-{slot[:LOGICAL_ID_SHOWN]}" if slot else host or instance
    names = (name, f"{KUBERNETES_PREFIX}{instance}", host, dns, slot)
    return Instance(
        instance_id=instance,
        names=tuple(dict.fromkeys(name for name in names if name)),
        group=group,
        instance_type=one.get("InstanceType"),
        domains={kind.value: str(value) for kind, value in domains.items() if value},
        launched_at=one.get("LaunchTime"),
        slot=slot,
    )
