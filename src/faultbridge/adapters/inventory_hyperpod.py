"""Machines of a SageMaker HyperPod cluster.

They run in an account of AWS: EC2 shows none of them, so that everything comes from SageMaker itself. A node's logical
id outlives the instance, and is the node's own name there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.failure_domains import DomainKind
from faultbridge.errors import Misconfigured, Rejected
from faultbridge.registry.instances import Machine, Member

PAGE = 100
MAX_DETAILS = 100
"""How many nodes of a group one look asks for in detail: SageMaker has no call for many at once."""

SERVING = frozenset({"Running", "SystemUpdating", "DeepHealthCheckInProgress"})
LEAVING = frozenset({"ShuttingDown", "NotFound"})
KUBERNETES_PREFIX = "hyperpod-"
LOGICAL_ID_SHOWN = 8


class HyperPodInventory:
    """An Inventory that asks SageMaker HyperPod."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def machines(self, config: ClusterConfig, group: str) -> tuple[Machine, ...]:
        """List the running instances of an instance group; `unknown_group` when there is none of that name."""
        found = self.look(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"{_name(config)} has no instance group {group!r} with nodes")
        return self.describe(config, group, {one: member for one, member in found[group].items() if member.serving})

    def look(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, Member]]:
        """Return the members of each instance group that has any; a hundred nodes a call."""
        found: dict[str, dict[str, Member]] = {}
        for one in self._nodes(config):
            if one.get("InstanceGroupName") in groups and one.get("InstanceId"):
                found.setdefault(one["InstanceGroupName"], {})[one["InstanceId"]] = _member(one)
        return found

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, Member]) -> tuple[Machine, ...]:
        """Describe members of an instance group, by name: a call for each, at most a hundred a look."""
        clients, name = self._of(config), _name(config)
        machines = []
        for instance in sorted(members)[:MAX_DETAILS]:
            with translated(f"reading node {instance} of {name}"):
                answer = clients.sagemaker.describe_cluster_node(ClusterName=name, NodeId=instance)
            machines.append(_machine(answer["NodeDetails"], instance, group, members[instance]))
        return tuple(sorted(machines, key=lambda machine: machine.name))

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the instances that the cluster lists no longer, or is shutting down."""
        here = {one["InstanceId"] for one in self._nodes(config) if one.get("InstanceId") and not _leaves(one)}
        return frozenset(instances) - here

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return nothing: a HyperPod node carries no tag of its own; on EKS its label speaks."""
        del config
        return frozenset()

    def _nodes(self, config: ClusterConfig) -> Iterator[Any]:
        name, clients = _name(config), self._of(config)
        with translated(f"listing the nodes of {name}"):
            pages = clients.sagemaker.get_paginator("list_cluster_nodes")
            asked: Any = {"ClusterName": name, "IncludeNodeLogicalIds": True, "PaginationConfig": {"PageSize": PAGE}}
            for page in pages.paginate(**asked):
                yield from page["ClusterNodeSummaries"]

    def _of(self, config: ClusterConfig) -> Clients:
        return self._clients.assuming(config.provider_role) if config.provider_role else self._clients


def _name(config: ClusterConfig) -> str:
    if not config.hyperpod_cluster:
        raise Misconfigured(f"{config.cluster} names no HyperPod cluster (cluster set --hyperpod-cluster NAME)")
    return config.hyperpod_cluster


def _member(one: Any) -> Member:  # noqa: ANN401 - the service's own answer
    status = (one.get("InstanceStatus") or {}).get("Status")
    return Member(one["InstanceId"], None, status in SERVING, one.get("NodeLogicalId"))


def _leaves(one: Any) -> bool:  # noqa: ANN401 - the service's own answer
    return (one.get("InstanceStatus") or {}).get("Status") in LEAVING


def _machine(one: Any, instance: str, group: str, member: Member) -> Machine:  # noqa: ANN401 - the service's own answer
    dns = one.get("PrivateDnsHostname") or ""
    host, slot = dns.partition(".")[0], one.get("NodeLogicalId") or member.slot
    shared = {
        DomainKind.ULTRASERVER: (one.get("UltraServerInfo") or {}).get("Id"),
        DomainKind.ZONE: (one.get("Placement") or {}).get("AvailabilityZone"),
    }
    called = (f"{KUBERNETES_PREFIX}{instance}", host, dns, slot)
    return Machine(
        instance_id=instance,
        # The logical id stays with the node, whoever sits in it; an older cluster has none.
        name=f"{group}-{slot[:LOGICAL_ID_SHOWN]}" if slot else host or instance,
        group=group,
        instance_type=one.get("InstanceType"),
        domains={kind.value: str(value) for kind, value in shared.items() if value},
        aliases=tuple(dict.fromkeys(name for name in called if name)),
        launched_at=one.get("LaunchTime"),
        slot=slot,
    )
