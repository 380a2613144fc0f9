"""Inventory events: what the cloud says of a machine makes the inventory look at its group at once.

An event is a hint and no more: what is true is read anew, and what was missed the next scheduled look finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.nodes import Alias, NodeKey
from faultbridge.ports import Table
from faultbridge.registry.instances import Synced
from faultbridge.registry.inventory_sync import SyncInventory
from faultbridge.storage import items, keys

GROUP = "group"
# In which fields of `detail` an instance and a group may stand: EC2, Auto Scaling, both kinds of HyperPod.
INSTANCES = ("instance-id", "EC2InstanceId", "InstanceId")
GROUPS = ("AutoScalingGroupName", "InstanceGroupName")


@dataclass(frozen=True, slots=True)
class LookAtEvents:
    """Looks at the groups that events are about, each once however many events there are."""

    table: Table
    sync: SyncInventory

    def __call__(self, events: Iterable[Mapping[str, Any]]) -> tuple[Synced, ...]:
        """Look at the groups of these events; those of machines that are none of ours are passed over."""
        told = {alias for event in events for alias in aliases_in(event)}
        found = self.table.get_many(keys.alias(*alias) for alias in told) if told else {}
        seats = [items.read_alias(item).key for item in found.values()]
        wanted = {key.cluster: set[str]() for key in seats}
        for alias in told:
            held = found.get(keys.alias(*alias))
            if held is not None and alias.kind == GROUP:
                wanted[items.read_alias(held).key.cluster].add(alias.value)
        for key, group in self._groups(key for key in seats if key.node):
            wanted[key.cluster].add(group)
        return tuple(self._look(cluster, groups) for cluster, groups in sorted(wanted.items()) if groups)

    def _groups(self, seats: Iterable[NodeKey]) -> Iterator[tuple[NodeKey, str]]:
        places = {keys.node_state(key): key for key in seats}
        states = self.table.get_many(places) if places else {}
        for place, key in places.items():
            group = items.read_state(key, states.get(place)).placement.group
            if group:
                yield key, group

    def _look(self, cluster: str, groups: set[str]) -> Synced:
        config = self.sync.registration.cluster(cluster)
        return self.sync.sync(config, groups) if config.provider in self.sync.inventories else Synced(cluster)


def aliases_in(event: Mapping[str, Any]) -> Iterator[Alias]:
    """List what an event is about: instances, and groups of machines that may have no node yet."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return
    inner = detail.get("EventDetails")
    for part in (detail, inner if isinstance(inner, Mapping) else {}):
        yield from (Alias("instance", str(part[name])) for name in INSTANCES if part.get(name))
        yield from (Alias(GROUP, str(part[name])) for name in GROUPS if part.get(name))
