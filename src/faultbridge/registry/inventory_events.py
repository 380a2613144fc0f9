"""Inventory events: an event about an instance or a group starts an inventory sync of that group.

An event only triggers the sync. The sync reads the current state, and the next scheduled sync covers a missed event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.cluster.provider_status import ProviderCondition
from faultbridge.domain.nodes import Alias, NodeKey
from faultbridge.ports import Table
from faultbridge.registry.instances import SyncResult
from faultbridge.registry.inventory_sync import SyncInventory
from faultbridge.storage import items, keys

GROUP = "group"
# Fields of `detail` that contain an instance id or a group name: EC2, Auto Scaling, HyperPod.
INSTANCE_FIELDS = ("instance-id", "EC2InstanceId", "InstanceId")
GROUP_FIELDS = ("AutoScalingGroupName", "InstanceGroupName")

ReadFailure = Callable[[Mapping[str, Any]], tuple[str, ProviderCondition] | None]
"""Reads the name of the provider's cluster and a failed launch from an event; None if it contains none."""


@dataclass(frozen=True, slots=True)
class InventoryEventHandler:
    """Synchronizes the groups that a batch of provider events names, each group once."""

    table: Table
    sync: SyncInventory
    read_failure: ReadFailure = lambda _event: None

    def __call__(self, events: Iterable[Mapping[str, Any]]) -> tuple[SyncResult, ...]:
        """Synchronize the groups of these events; unregistered instances and groups are ignored."""
        events = tuple(events)
        failures = [failure for event in events if (failure := self.read_failure(event))]
        aliases = {alias for event in events for alias in aliases_in(event)}
        found = self.table.get_many(keys.alias(*alias) for alias in aliases) if aliases else {}
        owners = [items.read_alias(item).key for item in found.values()]
        groups = {key.cluster: set[str]() for key in owners}
        for alias in aliases:
            stored = found.get(keys.alias(*alias))
            if stored is not None and alias.kind == GROUP:
                groups[items.read_alias(stored).key.cluster].add(alias.value)
        for key, group in self._groups_of_nodes(key for key in owners if key.node):
            groups[key.cluster].add(group)
        return tuple(self._sync(cluster, names, failures) for cluster, names in sorted(groups.items()) if names)

    def _groups_of_nodes(self, nodes: Iterable[NodeKey]) -> Iterator[tuple[NodeKey, str]]:
        """Yield each node with its group; a node without a group is left out."""
        state_keys = {keys.node_state(key): key for key in nodes}
        states = self.table.get_many(state_keys) if state_keys else {}
        for state_key, key in state_keys.items():
            group = items.read_state(key, states.get(state_key)).placement.group
            if group:
                yield key, group

    def _sync(self, cluster: str, groups: set[str], failures: Iterable[tuple[str, ProviderCondition]]) -> SyncResult:
        """Synchronize groups of a cluster; nothing is done when its provider has no inventory."""
        config = self.sync.registration.cluster(cluster)
        if config.provider not in self.sync.inventories:
            return SyncResult(cluster)
        return self.sync.sync(config, groups, [one for name, one in failures if name == config.hyperpod_cluster])


def aliases_in(event: Mapping[str, Any]) -> Iterator[Alias]:
    """Yield an alias for each instance and each group that an event names."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return
    inner = detail.get("EventDetails")
    listed = detail.get("InstanceGroups")
    groups = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    for part in (detail, inner if isinstance(inner, Mapping) else {}, *groups):
        yield from (Alias("instance", str(part[name])) for name in INSTANCE_FIELDS if part.get(name))
        yield from (Alias(GROUP, str(part[name])) for name in GROUP_FIELDS if part.get(name))
