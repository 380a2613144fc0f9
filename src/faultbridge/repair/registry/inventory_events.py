"""Inventory events: start an inventory sync of a group after a provider event about it.

An event only triggers the sync, which reads the current state; the next scheduled sync covers a missed event.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import ProviderCondition
from faultbridge.model.errors import UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.record.ports import Table
from faultbridge.record.queries import query_all
from faultbridge.repair.registry.groups import KnownGroups
from faultbridge.repair.registry.instances import SyncResult
from faultbridge.repair.registry.inventory_sync import SyncInventory

ARN = "arn:"


class EventOrigin(Struct, frozen=True):
    """The AWS account and the HyperPod cluster that a provider's event names; None for a missing value."""

    account: str | None = None
    hyperpod_cluster: str | None = None
    hyperpod_arn: str | None = None

    def names(self, config: ClusterConfig) -> bool:
        """Return whether the event names this cluster's HyperPod cluster, and no other AWS account."""
        registered = config.hyperpod_cluster
        named = registered is not None and registered in {self.hyperpod_cluster, self.hyperpod_arn}
        return named and self.may_be(config)

    def may_be(self, config: ClusterConfig) -> bool:
        """Return whether the event names no other HyperPod cluster and no other AWS account."""
        registered = config.hyperpod_cluster
        named = self.hyperpod_arn if registered and registered.startswith(ARN) else self.hyperpod_cluster
        other_cluster = bool(registered and named) and registered != named
        role = config.provider_role.arn if config.provider_role else None
        other_account = bool(role and self.account) and f":{self.account}:" not in str(role)
        return not other_cluster and not other_account


def origin_of(event: Mapping[str, Any]) -> EventOrigin:
    """Return the account and cluster that an event names in its envelope and its details."""
    parts = tuple(parts_of(event))
    return EventOrigin(_first([event], "account"), _first(parts, "ClusterName"), _first(parts, "ClusterArn"))


def parts_of(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of an event that may name a cluster, a group or an instance."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return
    yield detail
    inner, listed = detail.get("EventDetails"), detail.get("InstanceGroups")
    if isinstance(inner, Mapping):
        yield inner
    if isinstance(listed, list):
        yield from (one for one in listed if isinstance(one, Mapping))


def _first(parts: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((str(part[name]) for part in parts if part.get(name)), None)


# Fields of `detail` that contain an instance id or a group name: EC2, Auto Scaling, HyperPod.
INSTANCE_FIELDS = ("instance-id", "EC2InstanceId", "InstanceId")
GROUP_FIELDS = ("AutoScalingGroupName", "InstanceGroupName")

BLOCK_FIELDS = ("capacity-reservation-id",)
ALL_GROUPS = "*"

ReadFailure = Callable[[Mapping[str, Any]], ProviderCondition | None]
"""Reads a failed launch from an event; None if it contains none."""


class InventoryEventHandler(Struct, frozen=True):
    """Starts at most one sync of each cluster after a batch of provider events."""

    table: Table
    sync: SyncInventory
    read_failure: ReadFailure = lambda _event: None

    def sync_named_groups(self, events: Iterable[Mapping[str, Any]]) -> tuple[SyncResult, ...]:
        """Sync the groups that events name, or whose instances they name; return the results.

        An event of a capacity block syncs all groups of the clusters in its account.
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
        blocks = {origin_of(event) for event in events if any(_named(event, BLOCK_FIELDS))}
        if blocks:
            # The event of a capacity block names no group: the nodes of any cluster may run in it.
            for row in query_all(self.table, keys.CLUSTERS):
                groups[str(row["cluster"])][ALL_GROUPS] = blocks
        synced = (self._sync(cluster, named, failures) for cluster, named in sorted(groups.items()))
        return tuple(result for result in synced if result is not None)

    def _groups_of_nodes(self, instances: Iterable[str]) -> Iterator[tuple[NodeKey, str]]:
        """Yield the nodes that these instances back or backed, with their groups."""
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
        """Sync those groups of a cluster that the events may be about; origins None: surely its own."""
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
        only = None if ALL_GROUPS in names else names
        return self.sync.sync(config, only, [failure for origin, failure in failures if origin.names(config)])


def _named(event: Mapping[str, Any], fields: Iterable[str]) -> Iterator[str]:
    for part in parts_of(event):
        yield from (str(part[name]) for name in fields if part.get(name))
