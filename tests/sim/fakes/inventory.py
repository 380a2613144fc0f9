"""A fake of a provider's inventory: lists the instances of the fake fleet as members of groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from faultbridge.model.cluster.config import ClusterConfig, GroupUpdate
from faultbridge.model.cluster.state import GroupStatus, ProviderCondition, ProviderStatus, RepairSetting
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import Instance
from faultbridge.record.ports.inventory import GroupMember
from tests.sim.fakes.fleet import INSTANCE_TYPE, FakeFleet, host_name
from tests.sim.fakes.seam import Seam

ZONE = "use1-az1"


class FakeInventory:
    """Implements `Inventory` (fake): every running instance of the fleet is a serving member of its group.

    A test can change the answers:

    - `omitted_groups`: groups that the inventory does not find.
    - `standby`: instances that are members of their group but do not serve.
    - `opted_out_instances`: instances with the tag that excludes them from repair.
    - `role_id`: the id of the role that every instance has.
    - `network_node`: the network node of all instances; None means that it depends on the instance id.
    - `has_topology`: False means that network nodes cannot be read.
    - `conditions`: the conditions that the provider reports.
    - `updates`: the running updates by group. `reported_updates` has the groups whose update was returned.
    - `block`: the capacity block in which every instance runs, or None; `ends`: when capacity blocks end.
    - `desired`: desired sizes by group. The default is the number of instances that serve or are launching.
    - `provider_repairs`: whether the provider repairs nodes itself; None means that this is not known.

    `calls` counts the API calls, except those for the provider's status and its repair setting.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None, network_node: str | None = None) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.network_node = network_node
        self.has_topology = True
        self.calls = 0
        self.omitted_groups: set[str] = set()
        self.opted_out_instances: set[str] = set()
        self.standby: set[str] = set()
        self.role_id: str | None = None
        self.provider_repairs: bool | None = None
        self.conditions: tuple[ProviderCondition, ...] = ()
        self.desired: dict[str, int] = {}
        self.updates: dict[str, GroupUpdate] = {}
        self.reported_updates: set[str] = set()
        self.block: str | None = None
        self.ends: dict[str, datetime] = {}

    def list_members(self, _config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, GroupMember]]:
        """Return the members of the given groups, by group and instance id.

        Unknown groups, and those in `omitted_groups`, are left out.
        """
        self.calls += 1
        with self.seam.around("inventory", "list_members", tuple(groups)):
            return {
                group: {
                    one.instance_id: GroupMember(one.instance_id, ZONE, one.instance_id not in self.standby)
                    for one in self.fleet.running(group)
                }
                for group in groups
                if self._exists(group)
            }

    def describe(self, _config: ClusterConfig, group: str, members: Mapping[str, GroupMember]) -> tuple[Instance, ...]:
        """Return descriptions of the given members of a group, sorted by name.

        Each page of 100 members adds two API calls to `calls`.
        """
        self.calls += 2 * -(-len(members) // 100)
        with self.seam.around("inventory", "describe", group):
            return tuple(sorted((self.instance(group, one) for one in members), key=lambda found: found.name))

    def serving_instances(self, config: ClusterConfig, group: str) -> tuple[Instance, ...]:
        """Return descriptions of the serving members of a group; an unknown group raises `Rejected`."""
        found = self.list_members(config, [group])
        if group not in found:
            raise Rejected("unknown_group", f"group not found: {group!r}")
        return self.describe(config, group, {one: member for one, member in found[group].items() if member.serving})

    def role_ids(self, _config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return `role_id`, the role of all instances; empty if it is None or all `instances` are unknown."""
        self.calls += 1
        with self.seam.around("inventory", "role_ids", tuple(instances)):
            known = self.role_id is not None and not self.fleet.instances.keys().isdisjoint(instances)
            return frozenset([str(self.role_id)] if known else ())

    def instance(self, group: str, instance_id: str) -> Instance:
        """Return the description of one instance: its names, failure domains, type and launch time."""
        launched = self.fleet.instances[instance_id].launched_at
        domains = {"zone": ZONE}
        if self.block:
            domains["capacity_block"] = self.block
        if self.has_topology:
            domains["network_node"] = self.network_node or f"nn-{instance_id[-1]}"
        host = self.host_name(instance_id)
        names = (host, f"{host}.internal")
        return Instance(
            instance_id,
            names,
            domains,
            group,
            INSTANCE_TYPE,
            launched,
            role_id=self.role_id,
            has_all_domains=self.has_topology,
        )

    def host_name(self, instance_id: str) -> str:
        """Return the host name of an instance."""
        return host_name(instance_id)

    def gone(self, _config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return those of the given ids whose instance is terminated or never existed in the fleet."""
        self.calls += 1
        with self.seam.around("inventory", "gone", tuple(instances)):
            return frozenset(one for one in instances if not self.fleet.is_alive(one))

    def opted_out(self, _config: ClusterConfig) -> frozenset[str]:
        """Return the ids of the instances whose tag excludes them from repair."""
        self.calls += 1
        with self.seam.around("inventory", "opted_out"):
            return frozenset(self.opted_out_instances)

    def repairs_nodes(self, _config: ClusterConfig) -> RepairSetting | None:
        """Return whether the provider repairs nodes itself, as a test sets it in `provider_repairs`.

        The result is None if `provider_repairs` is None.
        """
        with self.seam.around("inventory", "repairs_nodes"):
            return self._repair_setting()

    def provider_status(self, _config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return the provider's conditions, its repair setting, and the size and update of each group."""
        with self.seam.around("inventory", "provider_status", tuple(groups)):
            present = sorted(group for group in groups if self._exists(group))
            statuses = {group: self._group_status(group) for group in present}
            return ProviderStatus(self.conditions, statuses, self._repair_setting())

    def block_ends(self, _config: ClusterConfig) -> Mapping[str, datetime]:
        """Return when the capacity blocks end, as a test sets it in `ends`."""
        with self.seam.around("inventory", "block_ends"):
            return self.ends

    def _exists(self, group: str) -> bool:
        return group not in self.omitted_groups and any(one.group == group for one in self.fleet.instances.values())

    def _repair_setting(self) -> RepairSetting | None:
        if self.provider_repairs is None:
            return None
        return RepairSetting(self.provider_repairs, "the provider", "change its setting")

    def _group_status(self, group: str) -> GroupStatus:
        serving = [one for one in self.fleet.running(group) if one.instance_id not in self.standby]
        desired = self.desired.get(group, len(serving) + self.fleet.launching(group))
        update = self.updates.get(group)
        self.reported_updates |= {group} if update else set()
        return GroupStatus(desired, len(serving) >= desired, update)
