"""An extension of Faultbridge: a provider, an inventory and an orchestrator for instances behind a rack controller.

The controller is a JSON file here, so that the example runs anywhere: `RACK_FILE` names it. It maps each instance to
its group, its position, its launch time, and whether it runs and takes work. Put the calls to your API into `Rack`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from faultbridge.model.cluster.config import CapacitySource, ClusterConfig
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus, RepairSetting
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.nodes import Instance
from faultbridge.record.ports.compute import CallResult, Capacity, CapacityEvidence, LaunchedInstance
from faultbridge.record.ports.inventory import GroupMember
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult, InstanceChecks, Presence
from faultbridge.record.ports.table import Surroundings


class Rack:
    """The rack controller."""

    def __init__(self, file: Path, surroundings: Surroundings) -> None:
        self.file, self.clock = file, surroundings.clock

    def instances(self) -> dict[str, dict[str, Any]]:
        """Return every instance. A controller that does not answer is unknown, never an empty rack."""
        try:
            found: dict[str, dict[str, Any]] = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Transient(f"the rack controller does not answer: {error}") from error
        return found

    def change(self, instance: str, **changes: object) -> bool:
        """Change one instance; returns whether the controller has it."""
        instances = self.instances()
        if instance in instances:
            instances[instance].update(changes)
            self.file.write_text(json.dumps(instances), encoding="utf-8")
        return instance in instances

    def swap(self, instance: str, token: str) -> None:
        """Take an instance out and start another one in its position. The same token starts only one."""
        instances = self.instances()
        instances[instance]["running"] = False
        successor = f"i-{token.encode().hex()[-17:]}"
        launched = self.clock.now().isoformat()
        new = {**instances[instance], "running": True, "takes_work": True, "launched_at": launched}
        self.file.write_text(json.dumps({**instances, successor: instances.get(successor, new)}), encoding="utf-8")


class RackProvider:
    """A `faultbridge.record.ports.compute.Provider`."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack

    def replace(self, instance_id: str, token: str) -> CallResult:
        """Swap the instance once; a repeated call is harmless."""
        presence = self.probe(instance_id)
        if presence is Presence.GONE:
            return CallResult(reason="the instance is already out")
        if presence is Presence.UNKNOWN:
            return CallResult(ProviderFailure.AMBIGUOUS, "the controller does not answer")
        self.rack.swap(instance_id, token)
        return CallResult(operation=f"swap {instance_id}")

    def probe(self, instance_id: str) -> Presence:
        """Return whether the instance is in the rack; without an answer that is unknown, never gone."""
        try:
            instance = self.rack.instances().get(instance_id)
        except Transient:
            return Presence.UNKNOWN
        return Presence.ALIVE if instance and instance["running"] else Presence.GONE

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return no result: this controller checks nothing."""
        del instance_id
        return InstanceChecks()

    def impaired(self) -> frozenset[str]:
        """Return nothing: this controller checks nothing."""
        return frozenset()

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return that the position itself is the reservation; the rack has no other source."""
        del instance_id, group
        own = source is CapacitySource.OWN_RESERVATION
        return Capacity(CapacityEvidence.OWN_RESERVATION if own else CapacityEvidence.ABSENT)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return the running instances of the group that were started after a time, oldest first."""
        members = {one: instance for one, instance in self.rack.instances().items() if instance["group"] == group}
        if not members:
            raise Misconfigured(f"the rack has no group {group}")
        launched = (
            LaunchedInstance(one, datetime.fromisoformat(instance["launched_at"]), slot=instance["position"])
            for one, instance in members.items()
            if instance["running"]
        )
        return tuple(
            sorted((one for one in launched if one.launched_at >= launched_after), key=lambda one: one.launched_at)
        )


class RackInventory:
    """A `faultbridge.record.ports.inventory.Inventory`."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, GroupMember]]:
        """Return the running instances of each group."""
        del config
        found: dict[str, dict[str, GroupMember]] = {}
        for one, instance in self.rack.instances().items():
            if instance["running"] and instance["group"] in groups:
                found.setdefault(instance["group"], {})[one] = GroupMember(one, slot=instance["position"])
        return found

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, GroupMember]) -> tuple[Instance, ...]:
        """Return the instances; a node is named after its position."""
        del config
        instances = self.rack.instances()
        return tuple(
            Instance(
                one,
                (instances[one]["position"],),
                group=group,
                launched_at=datetime.fromisoformat(instances[one]["launched_at"]),
                slot=instances[one]["position"],
            )
            for one in members
        )

    def serving_instances(self, config: ClusterConfig, group: str) -> tuple[Instance, ...]:
        """Return the running instances of a group."""
        found = self.list_members(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"the rack has no group {group}")
        return self.describe(config, group, found[group])

    def role_ids(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return no role: the instances of the rack have no role of AWS."""
        del config, instances
        return frozenset()

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return the instances that are out of the rack."""
        del config
        rack = self.rack.instances()
        return frozenset(one for one in instances if not rack.get(one, {}).get("running"))

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return no instances: this controller has no tags."""
        del config
        return frozenset()

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting | None:
        """Return that the controller repairs nothing itself."""
        del config
        return RepairSetting(False, "the rack controller", "it has no such setting")

    def block_ends(self, config: ClusterConfig) -> Mapping[str, datetime]:
        """Return nothing: the rack has no capacity blocks."""
        del config
        return {}

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return each group with the number of its instances as its desired size."""
        sizes = {group: len(members) for group, members in self.list_members(config, groups).items()}
        statuses = {group: GroupStatus(size, complete=True) for group, size in sizes.items()}
        return ProviderStatus(groups=statuses, repair=self.repairs_nodes(config))


class RackOrchestrator:
    """A `faultbridge.record.ports.orchestrator.Orchestrator`: the controller's own flag keeps work off an instance."""

    applicable = True

    def __init__(self, rack: Rack) -> None:
        self.rack = rack

    def cordon(self, node: ClusterNode) -> CallResult:
        """Prevent new work on the instance."""
        return self._set(node, takes_work=False)

    def discourage(self, node: ClusterNode) -> CallResult:
        """Do nothing: the controller has no preference between instances."""
        del node
        return CallResult()

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Allow work on the instance again."""
        return self._set(node, takes_work=True)

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Return that no work is left, unless the controller reports some; the controller evicts nothing."""
        del deadline
        return self.idle(node)

    def idle(self, node: ClusterNode) -> CallResult:
        """Return whether the controller reports no work on the instance."""
        try:
            instance = self.rack.instances().get(node.instance_id or "", {})
        except Transient as error:
            return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
        return CallResult(ProviderFailure.TIMEOUT, "work still runs") if instance.get("busy") else CallResult()

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return UNKNOWN: the controller does not report whether the operating system runs."""
        del node
        return CheckResult.UNKNOWN

    def _set(self, node: ClusterNode, *, takes_work: bool) -> CallResult:
        try:
            known = self.rack.change(node.instance_id or "", takes_work=takes_work)
        except Transient as error:
            return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
        return CallResult() if known else CallResult(ProviderFailure.NOT_FOUND, f"no instance {node.instance_id}")


def _rack(surroundings: Surroundings) -> Rack:
    file = os.environ.get("RACK_FILE")
    if not file:
        raise Misconfigured("RACK_FILE is not set")
    return Rack(Path(file), surroundings)


def provider(surroundings: Surroundings) -> RackProvider:
    """Return the provider; the entry point names this function."""
    return RackProvider(_rack(surroundings))


def inventory(surroundings: Surroundings) -> RackInventory:
    """Return the inventory; the entry point names this function."""
    return RackInventory(_rack(surroundings))


def orchestrator(surroundings: Surroundings) -> RackOrchestrator:
    """Return the orchestrator; the entry point names this function."""
    return RackOrchestrator(_rack(surroundings))
