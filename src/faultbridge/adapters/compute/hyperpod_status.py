"""Derive the status of a HyperPod cluster and its groups from DescribeCluster and the list of nodes.

Each condition in the status of a cluster has a text:

- For a node that could not start (status `Failure`), the text is SageMaker's message about the node.
- For a cluster that failed or is rolled back, the text is SageMaker's message about the cluster.
- For a group with the status `Failed` or `Degraded`, the text is the status; SageMaker gives no message about a group.

If SageMaker gives no message, the text states this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from faultbridge.adapters.compute.hyperpod_cluster import CHECKING, FAILURE, RUNNING, recovers_nodes, status_of
from faultbridge.decoders.hyperpod.launch_failures import failure_kind
from faultbridge.domain.cluster.group_updates import GroupUpdate
from faultbridge.domain.cluster.provider_status import (
    ConditionKind,
    GroupStatus,
    ProviderCondition,
    ProviderStatus,
    RepairSetting,
)

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
OCCUPIED = frozenset({"Pending", SYSTEM_UPDATING, CHECKING, FAILURE})
"""Statuses of a node that runs no jobs but keeps its instance; the instance of a node that shuts down is gone."""
NO_MESSAGE = "SageMaker gives no reason"


def repair_setting(name: str, cluster: Mapping[str, Any]) -> RepairSetting:
    """Return the repair setting of a cluster, with the command that changes it.

    The setting states whether HyperPod itself repairs faulty nodes of the cluster.
    """
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
    occupied = frozenset(
        str(node["InstanceId"]) for node in nodes if status_of(node) in OCCUPIED and "InstanceId" in node
    )
    return GroupStatus(desired, running >= desired, _update(cluster, group), occupied)


def _update(cluster: Mapping[str, Any], group: Mapping[str, Any]) -> GroupUpdate | None:
    """Return the software update that runs on a group or on the whole cluster; None if none runs.

    SageMaker does not report when the update started.
    """
    if SYSTEM_UPDATING in {cluster.get("ClusterStatus"), group.get("Status")}:
        return GroupUpdate(f"HyperPod updates the software ({SYSTEM_UPDATING})")
    status = group.get("SoftwareUpdateStatus")
    return GroupUpdate(f"HyperPod updates the software ({status})") if status in SOFTWARE_UPDATES else None
