"""Inventory sync: what the provider has beside what is registered, and the nodes brought up to date with it.

A machine more becomes a node, one that somebody else replaced is seated in place of the old one, and what machines are
called and share is noted. A node that a repair is at work on is left to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import Alias, AliasRow, DomainKind, NodeKey, NodeState
from faultbridge.errors import Misconfigured, Rejected, Transient
from faultbridge.ledger.queries import query_all, shard_rows
from faultbridge.pipeline.decide.instance_pairing import (
    Pairing,
    UnassignedInstance,
    VacantNode,
    may_change_instance,
    pair,
)
from faultbridge.ports import Table
from faultbridge.registry.instances import (
    NO_NAMES,
    Called,
    Inventory,
    Machine,
    Member,
    Roll,
    Synced,
    sitter_of,
    with_names,
)
from faultbridge.registry.registration import NewNode, Registration
from faultbridge.registry.replacement_detection import ReplacementDetection
from faultbridge.registry.views import ROSTER
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item, Put

MAX_DESCRIBED = 500
"""How many machines of one group one look asks about; those left over come with the next."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group: its rows of the roster, what is in it, and who is whose."""

    name: str
    rows: Sequence[Item]
    members: Mapping[str, Member]
    newcomers: Mapping[str, Member]

    @property
    def sitting(self) -> list[Item]:
        """List the rows whose machine is a member."""
        return [row for row in self.rows if row.get("instance") in self.members]

    @property
    def missing(self) -> list[Item]:
        """List the rows whose machine serves no longer, and the empty ones."""
        served = {one for one, member in self.members.items() if member.serving}
        return [row for row in self.rows if row.get("instance") not in served]


@dataclass(frozen=True, slots=True)
class SyncInventory:
    """Looks at the groups of every cluster's nodes; `inventories` are by the name of the cluster's provider."""

    table: Table
    registration: Registration
    seating: ReplacementDetection
    inventories: Mapping[str, Inventory]
    roll: Roll | None = None

    def __call__(self) -> tuple[Synced, ...]:
        """Bring every cluster up to date whose provider has an inventory."""
        clusters = [str(row["cluster"]) for row in query_all(self.table, keys.CLUSTERS)]
        found = self.table.get_many(keys.cluster_config(cluster) for cluster in clusters)
        configs = [items.read_config(item) for item in found.values()]
        return tuple(self.sync(config) for config in configs if config.provider in self.inventories)

    def sync(self, config: ClusterConfig, only: Collection[str] | None = None) -> Synced:
        """Bring one cluster up to date, or only some of its groups; a source that does not answer is said so."""
        synced = Synced(config.cluster)
        try:
            called = self._called(config)
            for group in self._groups(config, only):
                synced.seats += len(group.rows)
                self._fill(config, group, called, synced)
                self._refresh(config, group, called, synced)
        except (Transient, Misconfigured) as error:
            synced.unread.append(str(error))
        return synced

    def _called(self, config: ClusterConfig) -> Mapping[str, Called]:
        """Ask what the orchestrator calls the machines, and which of them a label or a tag keeps out."""
        called = dict(self.roll.call(config)) if self.roll and config.eks_cluster else {}
        for instance in self.inventories[config.provider].opted_out(config):
            called[instance] = replace(called.get(instance, NO_NAMES), opted_out=True)
        return called

    def _groups(self, config: ClusterConfig, only: Collection[str] | None) -> list[Group]:
        rows: dict[str, list[Item]] = {}
        seated: set[str] = set()
        for row in shard_rows(self.table, config, ROSTER):
            rows.setdefault(str(row.get("group") or ""), []).append(row)
            seated.add(str(row.get("instance")))
        named = {group for group in rows if group and (only is None or group in only)}
        self._name(config, named)
        found = self.inventories[config.provider].look(config, named) if named else {}
        return [Group(group, rows[group], members, _new(members, seated)) for group, members in sorted(found.items())]

    def _name(self, config: ClusterConfig, groups: Collection[str]) -> None:
        """Let the names of groups lead to their cluster, so that an event of a machine without a node finds it."""
        places = {keys.alias("group", group): group for group in groups}
        known = self.table.get_many(places) if places else {}
        now = self.registration.clock.now()
        for place, group in places.items():
            if place not in known:
                row = AliasRow(NodeKey(config.cluster, ""), None, now)
                self.table.write(Put(items.alias_item(Alias("group", group), row, now)))

    def _fill(self, config: ClusterConfig, group: Group, called: Mapping[str, Called], synced: Synced) -> None:
        missing = group.missing
        synced.gone += sorted(str(row["node"]) for row in missing if row.get("instance"))
        if not missing and not group.newcomers:
            return
        machines = {one.instance_id: one for one in self._described(config, group, group.newcomers)}
        vacancies = self._vacancies(config, missing)
        pairing = pair(vacancies, [_newcomer(one) for one in machines.values()])
        synced.waiting += pairing.waiting
        self._seat(config, pairing, machines, called, synced)
        seated = {node for node, _ in pairing.assigned}
        instances = {str(row["node"]): row.get("instance") for row in missing}
        for vacancy in vacancies:
            if vacancy.open and instances[vacancy.node] and vacancy.node not in seated:
                self.seating.vacate(config, vacancy.node, str(instances[vacancy.node]))

    def _seat(
        self,
        config: ClusterConfig,
        pairing: Pairing,
        machines: Mapping[str, Machine],
        called: Mapping[str, Called],
        synced: Synced,
    ) -> None:
        for node, instance in pairing.assigned:
            sitter = sitter_of(machines[instance], called.get(instance, NO_NAMES))
            try:
                if self.seating.replace_instance(config, node, sitter):
                    synced.reseated.append(node)
            except Rejected as error:
                synced.refused[instance] = error.reason
        for instance in pairing.added:
            self._add(config, machines[instance], called.get(instance, NO_NAMES), synced)

    def _add(self, config: ClusterConfig, machine: Machine, called: Called, synced: Synced) -> None:
        known = sitter_of(machine, called)
        whole = Machine(
            machine.instance_id,
            machine.name,
            machine.group,
            machine.instance_type,
            known.domains,
            known.names,
            machine.launched_at,
            machine.slot,
        )
        try:
            self.registration.add_node(config.cluster, NewNode.of_machine(whole), Actor.INVENTORY)
        except Rejected as error:
            synced.refused[machine.instance_id] = error.reason
        else:
            synced.added.append(machine.name)

    def _vacancies(self, config: ClusterConfig, missing: Sequence[Item]) -> list[VacantNode]:
        if not missing:
            return []
        places = {str(row["node"]): keys.node_state(NodeKey(config.cluster, str(row["node"]))) for row in missing}
        found = self.table.get_many(places.values())
        instances = [str(row["instance"]) for row in missing if row.get("instance")]
        gone = self.inventories[config.provider].gone(config, instances) if instances else frozenset()
        states = {node: items.read_state(NodeKey(config.cluster, node), found.get(at)) for node, at in places.items()}
        kept = [row for row in missing if states[str(row["node"])].status is not NodeStatus.RETIRED]
        return [_vacancy(row, states[str(row["node"])], gone) for row in kept]

    def _refresh(self, config: ClusterConfig, group: Group, called: Mapping[str, Called], synced: Synced) -> None:
        """Note what is new of the machines that sit where they sat."""
        unknown = [row for row in group.sitting if row.get("described") != row.get("instance")]
        asked = {str(row["instance"]): group.members[str(row["instance"])] for row in unknown}
        machines = {one.instance_id: one for one in self._described(config, group, asked)}
        for row in group.sitting:
            instance = str(row["instance"])
            known, machine = called.get(instance, NO_NAMES), machines.get(instance)
            sitter = sitter_of(machine, known) if machine else with_names(row, known)
            if sitter is not None and self.seating.refresh(config, str(row["node"]), sitter):
                synced.refreshed.append(str(row["node"]))

    def _described(self, config: ClusterConfig, group: Group, wanted: Mapping[str, Member]) -> Iterable[Machine]:
        some = dict(list(wanted.items())[:MAX_DESCRIBED])
        return self.inventories[config.provider].describe(config, group.name, some) if some else ()


def _new(members: Mapping[str, Member], seated: set[str]) -> dict[str, Member]:
    return {one: member for one, member in members.items() if member.serving and one not in seated}


def _newcomer(machine: Machine) -> UnassignedInstance:
    return UnassignedInstance(
        machine.instance_id, machine.launched_at, machine.domains.get(DomainKind.ZONE), machine.slot
    )


def _vacancy(row: Item, state: NodeState, gone: Collection[str]) -> VacantNode:
    instance = row.get("instance")
    return VacantNode(
        node=str(row["node"]),
        zone=str(row["zone"]) if row.get("zone") else None,
        slot=str(row["slot"]) if row.get("slot") else None,
        confirmed_gone=not instance or str(instance) in gone,
        under_repair=not may_change_instance(state),
    )
