"""Nodes that AWS ParallelCluster and AWS PCS launch for Slurm: replace, list and reboot them.

ParallelCluster's daemon `clustermgtd` launches another instance for a static node whose instance is gone, under the
same name in Slurm. A dynamic node gets one only when a job needs it. No call of AWS PCS replaces or restarts one node.
docs/slurm.md names the versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.call_results import errors_become_results
from faultbridge.adapters.ec2.instances import launched_instance_of, launched_since, listed_instance, live_instances
from faultbridge.adapters.ec2.inventory import Ec2Inventory
from faultbridge.adapters.ec2.launch import Ec2Instances, terminate_instance
from faultbridge.adapters.ec2.request_log import Progress, RequestLog
from faultbridge.adapters.slurm.access import SlurmOperations
from faultbridge.adapters.slurm.orchestrator import OWNER, states_of
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.cluster.config import PCS, ClusterConfig
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus, RepairSetting
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.compute import (
    CallResult,
    LaunchedInstance,
    Restart,
    Restarter,
    RestartState,
    SuccessorNotNeeded,
)
from faultbridge.record.ports.inventory import GroupMember

PARALLEL_CLUSTER_TAGS = tuple(
    f"tag:parallelcluster:{name}" for name in ("cluster-name", "queue-name", "compute-resource-name")
)
PCS_TAG = "tag:aws:pcs:compute-node-group-id"
_GROUP = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+)/([a-z0-9-]+)", re.IGNORECASE)
_PCS_GROUP = re.compile(r"pcs_[a-z0-9]+")
RUNNING = "running"
MAINTENANCE = frozenset({"MAINT", "MAINTENANCE"})
REBOOTING = frozenset({"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
NOT_BACK = frozenset({"DOWN", "NOT_RESPONDING"})
NO_CALL = "no call of AWS PCS replaces or restarts one node"


def filters_of(group: str) -> dict[str, str]:
    """Return the tags of the instances of a group, as filters of EC2; raises Misconfigured for any other text.

    A group is `CLUSTER/QUEUE/COMPUTE-RESOURCE` of ParallelCluster, or the id of a compute node group of PCS.
    """
    if found := _GROUP.fullmatch(group):
        return dict(zip(PARALLEL_CLUSTER_TAGS, found.groups(), strict=True)) | {
            "tag:parallelcluster:node-type": "Compute"
        }
    if _PCS_GROUP.fullmatch(group):
        return {PCS_TAG: group}
    raise Misconfigured(f"invalid group: {group!r}; allowed: CLUSTER/QUEUE/COMPUTE-RESOURCE, or pcs_... of AWS PCS")


def maintained(found: SlurmNode) -> str:
    """Return the text about a node in a maintenance reservation."""
    return f"Slurm reserves {found.name} for maintenance: {found.state}"


class SlurmRecords:
    """Finds the record that Slurm has of an instance, by the address of the instance."""

    def __init__(self, clients: Clients, connect: Callable[[], SlurmOperations]) -> None:
        self._clients, self.connect = clients, connect

    def of_instance(self, instance_id: str) -> SlurmNode | None:
        """Return Slurm's record of an instance, or None if Slurm has none."""
        with translated(f"reading {instance_id}"):
            address = listed_instance(self._clients, instance_id).get("PrivateIpAddress")
        slurm = self.connect()
        name = slurm.addresses().get(str(address)) if address else None
        return slurm.node(name) if name else None


class ParallelClusterProvider(Ec2Instances):
    """A Provider, which replaces instances, for compute nodes of AWS ParallelCluster with Slurm."""

    def __init__(self, clients: Clients, records: SlurmRecords) -> None:
        super().__init__(clients, frees_slot=True)
        self._records = records

    @errors_become_results()
    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the call names one instance, so it needs no token
        """Terminate the instance by one call without retries; after a lost response `probe` decides.

        CONFLICT without a call if Slurm reserves the node for maintenance.
        """
        refusal = self.why_no_launch("", instance_id)
        return (
            CallResult(ProviderFailure.CONFLICT, refusal) if refusal else terminate_instance(self._clients, instance_id)
        )

    def why_no_launch(self, group: str, instance_id: str) -> str:  # noqa: ARG002 - the node decides, not its group
        """Return the maintenance reservation that holds the node of an instance; empty without one."""
        found = self._records.of_instance(instance_id)
        if found is None or MAINTENANCE.isdisjoint(states_of(found)):
            return ""
        return maintained(found)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return the running instances of a compute resource that were launched since a time, oldest first.

        Raises SuccessorNotNeeded if there is none and each static node of the compute resource has an instance.
        """
        with translated(f"listing the instances of {group}"):
            live = list(live_instances(self._clients, filters_of(group)))
        found = launched_since(map(launched_instance_of, live), launched_after)
        if not found and not self._static_nodes_without(group, live):
            raise SuccessorNotNeeded(f"each static node of {group} has an instance")
        return tuple(one for one in found if one.running)

    def _static_nodes_without(self, group: str, live: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the static nodes of a compute resource at whose address no instance is."""
        _, queue, resource = group.split("/")
        known = {str(one.get("PrivateIpAddress")) for one in live}
        addresses = self._records.connect().addresses()
        return [
            name for at, name in addresses.items() if name.startswith(f"{queue}-st-{resource}-") and at not in known
        ]


class PcsProvider(Ec2Instances):
    """A Provider for the nodes of AWS PCS, which repairs them itself; it refuses to replace one."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients, frees_slot=True)

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - nothing is called
        """Refuse: nothing is called."""
        return CallResult(ProviderFailure.PERMISSION_DENIED, f"{instance_id} is not replaced: {NO_CALL}")

    def why_no_launch(self, group: str, instance_id: str) -> str:  # noqa: ARG002 - the same for all
        """Return that PCS decides itself."""
        return NO_CALL

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return the running instances of a compute node group that were launched since a time, oldest first."""
        with translated(f"listing the instances of {group}"):
            live = list(live_instances(self._clients, filters_of(group)))
        found = launched_since(map(launched_instance_of, live), launched_after)
        return tuple(one for one in found if one.running)


class TaggedInventory(Ec2Inventory):
    """An Inventory of the instances that ParallelCluster or PCS launched, by their tags."""

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, GroupMember]]:
        """Return the members by group and instance id; a group may have none."""
        clients, found = self._clients.for_role(config.provider_role), dict[str, dict[str, GroupMember]]()
        for group in sorted(groups):
            with translated(f"listing the instances of {group}"):
                live = live_instances(clients, filters_of(group))
                found[group] = {one["InstanceId"]: _member(one) for one in live}
        return found

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting | None:
        """Return that AWS PCS repairs its nodes; None for ParallelCluster, which only replaces nodes that are lost."""
        if config.provider != PCS:
            return None
        change = f"{NO_CALL}: let its health monitoring do that (instanceHealthChecks)"
        return RepairSetting(True, "AWS PCS", change)

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return how many instances each group has, and who repairs its nodes."""
        sizes = {
            group: GroupStatus(len(members), all(one.serving for one in members.values()))
            for group, members in self.list_members(config, groups).items()
        }
        return ProviderStatus(groups=sizes, repair=self.repairs_nodes(config))


def _member(one: Mapping[str, Any]) -> GroupMember:
    return GroupMember(one["InstanceId"], one["Placement"].get("AvailabilityZone"), one["State"]["Name"] == RUNNING)


class SlurmRestarter:
    """A Restarter that lets Slurm reboot nodes, so that ParallelCluster keeps the instance; resets run through SSM.

    The request log lets each token start at most one reboot.
    """

    def __init__(self, records: SlurmRecords, requests: RequestLog, resets: Restarter) -> None:
        self._records, self._requests, self._resets = records, requests, resets

    @errors_become_results()
    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Reset the GPUs, or ask Slurm for a reboot once per token."""
        if repair_action is not RepairAction.REBOOT_NODE:
            return self._resets.restart(repair_action, instance_id, token)
        accepted = CallResult(operation=f"slurm reboot of {instance_id}")
        if self._requests.find(token) is not None:
            return accepted
        found = self._records.of_instance(instance_id)
        if found is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"Slurm has no node at the address of {instance_id}")
        if not MAINTENANCE.isdisjoint(states_of(found)):
            return CallResult(ProviderFailure.CONFLICT, maintained(found))
        if self._requests.record(token):
            try:
                # The reason begins as that of the isolation, so that the node is resumed after its verification.
                self._records.connect().reboot(found.name, f"{OWNER} {instance_id}")
            except Misconfigured as error:
                self._requests.withdraw(token)
                return CallResult(ProviderFailure.PROVIDER_ERROR, str(error))
            self._requests.advance(token, Progress.ACCEPTED)
        return accepted

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the restart; a reboot is `done` when Slurm was seen to reboot a node that is up now."""
        if repair_action is not RepairAction.REBOOT_NODE:
            return self._resets.status(repair_action, instance_id, token)
        request, operation = self._requests.find(token), f"slurm reboot of {instance_id}"
        if request is None:
            return Restart(RestartState.ABSENT)
        try:
            found = self._records.of_instance(instance_id)
        except Transient as error:
            return Restart(RestartState.UNKNOWN, str(error), operation)
        if found is None:
            return Restart(RestartState.UNKNOWN, "Slurm has no node at the address of the instance", operation)
        states = states_of(found)
        if not REBOOTING.isdisjoint(states):
            self._requests.advance(token, Progress.OBSERVED)
        if not states.isdisjoint(REBOOTING | NOT_BACK):
            return Restart(RestartState.RUNNING, f"{found.name} is {found.state}", operation)
        return Restart(*self._requests.state_of_running(request), operation=operation)
