"""Read the managed node groups of an EKS cluster: their repair settings and running updates.

EKS shows node auto repair as `nodeRepairConfig.enabled` of a managed node group. Nodes of EKS Auto Mode and of
Karpenter belong to no managed node group, so this module cannot read whether a controller repairs them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.domain.cluster.group_updates import GroupUpdate
from faultbridge.domain.cluster.provider_status import RepairSetting

UPDATING = "UPDATING"
_ACCELERATED = re.compile(r"(?:p|g|gr|dl|trn|inf)\d")
"""The families of instance types with GPUs or other accelerators."""


def node_groups(clients: Clients, cluster: str) -> tuple[Mapping[str, Any], ...]:
    """Return the descriptions of all managed node groups of an EKS cluster; one call per node group."""
    with translated(f"reading the node groups of EKS cluster {cluster}"):
        pages = clients.eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
        names = [name for page in pages for name in page["nodegroups"]]
        return tuple(_describe(clients, cluster, name) for name in names)


def repair_setting(cluster: str, groups: Collection[Mapping[str, Any]]) -> RepairSetting | None:
    """Return the setting by which EKS repairs nodes of node groups; None if EKS repairs none of them.

    The setting names the node groups, and the command that turns node auto repair off. Node groups that have only
    instance types without accelerators are ignored.
    """
    repairing = [str(one["nodegroupName"]) for one in groups if _repairs(one)]
    if not repairing:
        return None
    name = f"node auto repair of EKS (node group {', '.join(repairing)})"
    command = (
        f"run aws eks update-nodegroup-config --cluster-name {cluster} --nodegroup-name {repairing[0]} "
        "--node-repair-config enabled=false"
    )
    return RepairSetting(True, name, f"{command}, also for the others" if len(repairing) > 1 else command)


def auto_scaling_groups(node_group: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the Auto Scaling groups of a node group."""
    resources = node_group.get("resources") or {}
    yield from (str(one["name"]) for one in resources.get("autoScalingGroups") or () if one.get("name"))


def running_updates(groups: Collection[Mapping[str, Any]]) -> dict[str, GroupUpdate]:
    """Return the update of each Auto Scaling group whose node group EKS updates now.

    EKS does not report when the update started.
    """
    updating = [one for one in groups if one.get("status") == UPDATING]
    return {
        name: GroupUpdate(f"EKS updates node group {one['nodegroupName']}")
        for one in updating
        for name in auto_scaling_groups(one)
    }


def _describe(clients: Clients, cluster: str, name: str) -> Mapping[str, Any]:
    answer: Any = clients.eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)
    node_group: Mapping[str, Any] = answer["nodegroup"]
    return node_group


def _repairs(node_group: Mapping[str, Any]) -> bool:
    types = node_group.get("instanceTypes") or ()
    accelerated = not types or any(_ACCELERATED.match(one) for one in types)
    return bool((node_group.get("nodeRepairConfig") or {}).get("enabled")) and accelerated
