"""Inventory sync: what the provider has beside what is registered. It adds seats; it never empties or re-seats one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.services.directory import ROSTER
from faultbridge.services.inventory import Inventory
from faultbridge.services.registration import NewNode, Registration
from faultbridge.services.rows import every, rows_of
from faultbridge.storage import items, keys


@dataclass(frozen=True, slots=True)
class Synced:
    """What a look at one cluster's groups found.

    `added` are new seats, `gone` seats whose instance serves no longer, `waiting` instances that may be the successor
    of such a seat, and so are left to its repair; `refused` are those that could not be registered, with the reason.
    """

    cluster: str
    seats: int = 0
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Group:
    """One group: its seats by instance, its empty seats, what serves in it."""

    name: str
    seats: Mapping[str, str]
    empty: tuple[str, ...]
    serving: Mapping[str, str]

    @property
    def gone(self) -> tuple[str, ...]:
        return tuple(sorted(node for instance, node in self.seats.items() if instance not in self.serving))

    @property
    def new(self) -> dict[str, str]:
        return {instance: zone for instance, zone in self.serving.items() if instance not in self.seats}


@dataclass(frozen=True, slots=True)
class SyncInventory:
    """Looks at the groups of every cluster's seats; `inventories` are by the name of the cluster's provider."""

    table: Table
    registration: Registration
    inventories: Mapping[str, Inventory]

    def __call__(self) -> tuple[Synced, ...]:
        """Bring every cluster up to date whose provider has an inventory."""
        clusters = [str(row["cluster"]) for row in every(self.table, keys.CLUSTERS)]
        configs = [items.read_config(found) for found in self._configs(clusters)]
        return tuple(self.sync(config) for config in configs if config.provider in self.inventories)

    def sync(self, config: ClusterConfig) -> Synced:
        """Bring one cluster up to date: an instance more than there are seats becomes a seat, unverified."""
        inventory = self.inventories[config.provider]
        groups = self._groups(config, inventory)
        added: list[str] = []
        refused: dict[str, str] = {}
        waiting: list[str] = []
        for group in groups:
            if group.gone or group.empty:
                waiting += sorted(group.new)
                continue
            for machine in inventory.describe(group.name, group.new) if group.new else ():
                try:
                    self.registration.add_node(config.cluster, NewNode.of_machine(machine), Actor.INVENTORY)
                except Rejected as error:
                    refused[machine.instance_id] = error.reason
                else:
                    added.append(machine.name)
        seats = sum(len(group.seats) + len(group.empty) for group in groups)
        gone = tuple(node for group in groups for node in group.gone)
        return Synced(config.cluster, seats, tuple(added), gone, tuple(waiting), refused)

    def _groups(self, config: ClusterConfig, inventory: Inventory) -> tuple[_Group, ...]:
        seats: dict[str, dict[str, str]] = {}
        empty: dict[str, list[str]] = {}
        for row in rows_of(self.table, config, ROSTER):
            group = str(row.get("group") or "")
            if row.get("instance"):
                seats.setdefault(group, {})[str(row["instance"])] = str(row["node"])
            else:
                empty.setdefault(group, []).append(str(row["node"]))
        named = {group for group in seats.keys() | empty.keys() if group}
        serving = inventory.serving(named) if named else {}
        return tuple(
            _Group(group, seats.get(group, {}), tuple(empty.get(group, ())), serving[group])
            for group in sorted(serving)
        )

    def _configs(self, clusters: list[str]) -> Iterator[Mapping[str, object]]:
        yield from self.table.get_many(keys.cluster_config(cluster) for cluster in clusters).values()
