"""Groups of a provider: which of their instances have a node, and what a sync of their nodes changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from faultbridge.decide.instance_pairing import VacantNode, may_change_instance
from faultbridge.model.nodes import Instance, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key, Put
from faultbridge.model.times import from_text, to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.inventory import GroupMember
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all


class SyncResult(Struct):
    """The changes that one inventory sync made in one cluster, and what it found.

    - `nodes`: the number of nodes in the groups that the sync read, before the sync.
    - `added`: names of new nodes.
    - `replaced_externally`: names of nodes that got an instance that another controller launched.
    - `updated`: names of nodes with new metadata.
    - `gone`: names of nodes whose instance does not serve.
    - `retired`: names of nodes that were replaced by other nodes in an update of their group.
    - `waiting`: ids of instances that stay reserved for repairs.
    - `refused`: the reason why an instance was not registered, by instance id.
    - `source_errors`: the errors of sources that could not be read.
    """

    cluster: str
    nodes: int = 0
    added: list[str] = field(default_factory=list)
    replaced_externally: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    source_errors: list[str] = field(default_factory=list)

    @property
    def unchanged(self) -> bool:
        """Return whether all lists and `refused` are empty; `waiting` does not count."""
        changes = (
            self.added,
            self.replaced_externally,
            self.updated,
            self.gone,
            self.retired,
            self.refused,
            self.source_errors,
        )
        return not any(changes)


def combine(provider: Instance, orchestrator: Instance | None) -> Instance:
    """Combine two descriptions: the provider's domains override, the orchestrator's opt-out counts."""
    if orchestrator is None:
        return provider
    return replace(
        provider,
        names=tuple(dict.fromkeys((*provider.names, *orchestrator.names))),
        domains={**orchestrator.domains, **provider.domains},
        opted_out=orchestrator.opted_out,
        opt_out_node=orchestrator.opt_out_node,
    )


class KnownGroups(Struct, frozen=True):
    """Stores when a sync first read each group of each cluster; names may repeat across clusters."""

    table: Table
    clock: Clock

    def known_since(self, cluster: str, groups: Collection[str]) -> Mapping[str, datetime]:
        """Return when a sync first read each group, and store the current time for new groups."""
        wanted = {_known_group(cluster, group): group for group in groups}
        stored = self.table.get_many(wanted) if wanted else {}
        now = self.clock.now()
        for key in wanted:
            if key not in stored:
                self.table.write(Put(items.item(key, now, {"known_since": to_text(now)})))
        return {wanted[key]: from_text(str(found["known_since"])) for key, found in stored.items()}

    def clusters_with(self, groups: Collection[str]) -> Mapping[str, set[str]]:
        """Return, by group name, the registered clusters in which a sync has read such a group."""
        clusters = [str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)] if groups else []
        wanted = {_known_group(cluster, group): (cluster, group) for group in groups for cluster in clusters}
        found: dict[str, set[str]] = {group: set() for group in groups}
        for key in self.table.get_many(wanted) if wanted else ():
            cluster, group = wanted[key]
            found[group].add(cluster)
        return found


def _known_group(cluster: str, group: str) -> Key:
    return Key(keys.cluster_partition(cluster), f"GROUP#{group}")


class Group(Struct, frozen=True):
    """One group of a provider: its roster rows, its members, and serving members without a node."""

    name: str
    known_since: datetime | None
    rows: Sequence[Item]
    members: Mapping[str, GroupMember]
    unassigned: Mapping[str, GroupMember]

    @property
    def present(self) -> list[Item]:
        """Return the roster rows of the nodes whose instance is a member of the group."""
        return [row for row in self.rows if row.get("instance") in self.members]

    def is_joined_by(self, instance: Instance) -> bool:
        """Return whether an instance was launched after the first read of the group, so it ran no jobs."""
        launched, known_since = instance.launched_at, self.known_since
        # Launch times are whole seconds.
        return bool(launched and known_since and launched >= known_since.replace(microsecond=0))

    @property
    def missing(self) -> list[Item]:
        """Return the roster rows of nodes without an instance that serves in the group."""
        serving = {one for one, member in self.members.items() if member.serving}
        return [row for row in self.rows if row.get("instance") not in serving]


def vacancy_of(row: Item, state: NodeState, gone: Collection[str]) -> VacantNode:
    """Return a node without a serving instance, in the form that `pair` needs."""
    instance = row.get("instance")
    return VacantNode(
        node=str(row["node"]),
        zone=str(row["zone"]) if row.get("zone") else None,
        slot=str(row["slot"]) if row.get("slot") else None,
        confirmed_gone=not instance or str(instance) in gone,
        under_repair=not may_change_instance(state),
        gone_since=state.incarnation.gone_since if state.incarnation else None,
    )
