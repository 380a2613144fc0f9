"""Inventory events: start an inventory sync of a group after a provider event about it.

An event about an instance starts a sync of its group. An event only triggers the sync. The sync reads the current
state, and the next scheduled sync covers a missed event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.provider_status import ProviderCondition
from faultbridge.domain.nodes import Alias, NodeKey
from faultbridge.errors import UnknownName
from faultbridge.log import log_cause
from faultbridge.ports import Table
from faultbridge.registry.event_origin import EventOrigin, origin_of, parts_of
from faultbridge.registry.groups import KnownGroups
from faultbridge.registry.instances import SyncResult
from faultbridge.registry.inventory_sync import SyncInventory
from faultbridge.storage import items, keys

# Fields of `detail` that contain an instance id or a group name: EC2, Auto Scaling, HyperPod.
INSTANCE_FIELDS = ("instance-id", "EC2InstanceId", "InstanceId")
GROUP_FIELDS = ("AutoScalingGroupName", "InstanceGroupName")

ReadFailure = Callable[[Mapping[str, Any]], ProviderCondition | None]
"""Reads a failed launch from an event; None if it contains none."""


@dataclass(frozen=True, slots=True)
class InventoryEventHandler:
    """Starts inventory syncs after a batch of provider events.

    A batch starts at most one sync for each cluster. The sync covers the groups that the events name, and the groups of
    the nodes whose instances the events name. `read_failure` returns the failed launch that an event reports, or None.
    """

    table: Table
    sync: SyncInventory
    read_failure: ReadFailure = lambda _event: None

    def __call__(self, events: Iterable[Mapping[str, Any]]) -> tuple[SyncResult, ...]:
        """Synchronize the groups that these events name; return the result for each cluster with such a group.

        Unregistered instances and groups are ignored.
        """
        events = tuple(events)
        failures = [(origin_of(event), failure) for event in events if (failure := self.read_failure(event))]
        origins: defaultdict[str, set[EventOrigin]] = defaultdict(set)
        for event in events:
            for group in _named(event, GROUP_FIELDS):
                origins[group].add(origin_of(event))
        groups: defaultdict[str, dict[str, set[EventOrigin] | None]] = defaultdict(dict)
        for group, clusters in KnownGroups(self.table, self.sync.registration.clock).clusters_with(origins).items():
            for cluster in clusters:
                groups[cluster][group] = origins[group]
        for key, group in self._groups_of_nodes({one for event in events for one in _named(event, INSTANCE_FIELDS)}):
            groups[key.cluster][group] = None
        synced = (self._sync(cluster, named, failures) for cluster, named in sorted(groups.items()))
        return tuple(result for result in synced if result is not None)

    def _groups_of_nodes(self, instances: Iterable[str]) -> Iterator[tuple[NodeKey, str]]:
        """Yield each node that one of these instances backs or recently backed, with the group of the node.

        Instances without a registered node, and nodes without a group, are not included.
        """
        aliases = {keys.alias(*Alias("instance", one)) for one in instances}
        found = self.table.get_many(aliases) if aliases else {}
        state_keys = {keys.node_state(key): key for key in (items.read_alias(one).key for one in found.values())}
        states = self.table.get_many(state_keys) if state_keys else {}
        for state_key, key in state_keys.items():
            group = items.read_state(key, states.get(state_key)).placement.group
            if group:
                yield key, group

    def _sync(
        self,
        cluster: str,
        groups: Mapping[str, Iterable[EventOrigin] | None],
        failures: Iterable[tuple[EventOrigin, ProviderCondition]],
    ) -> SyncResult | None:
        """Synchronize those groups of a cluster that the events may be about.

        `groups` maps a group name to the origins of the events that name the group. The value None means that an event
        names an instance of the group, so the event is about this cluster.

        Returns None if there are no such groups, or if the cluster was erased in the meantime. If the provider has no
        inventory, nothing is synchronized and the result is empty.
        """
        try:
            config = self.sync.registration.cluster(cluster)
        except UnknownName as error:
            log_cause("inventory_event_ignored", reason=str(error), level=logging.WARNING, cluster=cluster)
            return None
        names = {
            group
            for group, origins in groups.items()
            if origins is None or any(origin.may_be(config) for origin in origins)
        }
        if not names:
            return None
        if config.provider not in self.sync.inventories:
            return SyncResult(cluster)
        return self.sync.sync(config, names, [failure for origin, failure in failures if origin.names(config)])


def _named(event: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    for part in parts_of(event):
        yield from (str(part[name]) for name in fields if part.get(name))
