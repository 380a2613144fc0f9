"""Registration: which clusters there are and which nodes they have. Nothing else ever creates a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from faultbridge.domain import names
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.clusters import ClusterConfig, ClusterState, Control
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import Alias, AliasRow, DomainKind, Head, Incarnation, NodeKey, NodeState, Placement
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, Table
from faultbridge.registry.instances import Machine
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Equals, Put, Write

MAX_SHARDS = 64
MAX_ALIASES = 20
SETTABLE = frozenset(one.name for one in fields(ClusterConfig)) - {"cluster", "shards", "version"}
IMPORTED = "import of a serving fleet, unverified"
EMPTY_SEAT = "node registered, no instance"


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to be registered, with the instance that serves in it, or empty."""

    name: str
    instance_id: str | None = None
    group: str | None = None
    instance_type: str | None = None
    domain: str | None = None
    aliases: tuple[str, ...] = ()
    since: datetime | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    host_names: tuple[str, ...] = ()
    slot: str | None = None

    @classmethod
    def of_machine(cls, machine: Machine, name: str | None = None) -> NewNode:
        """Take a machine of an inventory for a node named as the machine is, unless told otherwise."""
        return cls(
            name=name or machine.name,
            instance_id=machine.instance_id,
            group=machine.group,
            instance_type=machine.instance_type,
            domain=machine.domain,
            since=machine.launched_at,
            domains=machine.domains,
            host_names=machine.names,
            slot=machine.slot,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which records may speak of the node."""
        return tuple(dict.fromkeys((self.name, *self.aliases, *self.host_names)))

    @property
    def others(self) -> tuple[str, ...]:
        """Return the names of the machine that are not the node's own."""
        return tuple(name for name in self.host_names if name != self.name)

    def bears(self, alias: Alias) -> bool:
        """Tell whether a name is the machine's, and not one that the node keeps whoever sits in it."""
        return alias.kind == "instance" or alias.value.partition("/")[2] in self.host_names


@dataclass(frozen=True, slots=True)
class Registration:
    """Registers clusters and nodes, and changes how a cluster is run."""

    table: Table
    append: Append
    clock: Clock

    def add_cluster(self, config: ClusterConfig) -> ClusterConfig:
        """Register a cluster; `cluster_exists` when the name is taken. A new cluster observes unless told otherwise."""
        names.cluster_name(config.cluster)
        if not 1 <= config.shards <= MAX_SHARDS:
            raise Rejected("bad_shards", f"{config.shards} is not 1 to {MAX_SHARDS}")
        now, config = self.clock.now(), replace(config.validated(), version=1)
        listed = items.item(keys.cluster_listed(config.cluster), now, {"cluster": config.cluster})
        made = (
            items.config_item(config, now),
            items.control_item(Control(config.cluster), now),
            items.cluster_item(ClusterState(config.cluster, Head(version=1)), now),
            listed,
        )
        try:
            self.table.transact([Put(item, when=Absent()) for item in made])
        except Conflict:
            if self.find_cluster(config.cluster) is None:
                raise
            raise Rejected("cluster_exists", f"{config.cluster} is registered already") from None
        return config

    def find_cluster(self, cluster: str) -> ClusterConfig | None:
        """Return how a cluster is registered, or None."""
        found = self.table.get(keys.cluster_config(cluster))
        return items.read_config(found) if found else None

    def cluster(self, cluster: str) -> ClusterConfig:
        """Return how a cluster is registered; `unknown_cluster` when it is not."""
        config = self.find_cluster(cluster)
        if config is None:
            raise Rejected("unknown_cluster", f"{cluster} is not registered")
        return config

    def set_cluster(self, cluster: str, changes: Mapping[str, Any]) -> ClusterConfig:
        """Change how a cluster is run, against its version; a cluster's name and shards stay for ever."""
        for name in changes:
            if name not in SETTABLE:
                raise Rejected("not_settable", f"{name} is none of {', '.join(sorted(SETTABLE))}")
        config = self.cluster(cluster)
        changed = replace(config, **changes).validated()
        if changed != config:
            changed = replace(changed, version=config.version + 1)
            self.table.write(self._put_config(changed, self.clock.now()))
        return changed

    def add_node(self, cluster: str, node: NewNode, actor: Actor = Actor.CLI) -> NodeState:
        """Register a node: with an instance it serves, unverified; without one it is provisioning.

        A node that is there already with the same instance stays as it is. `node_exists` when another instance sits
        in it, `alias_taken` when one of its names leads to another node.
        """
        config = self.cluster(cluster)
        node = _checked(node)
        key = NodeKey(config.cluster, node.name)

        def revise(before: NodeState, now: datetime) -> Transition:
            if before.registered:
                _same_seat(before, node)
                return Transition(before)
            # Read here, so that a lost race reads it again.
            return self._register(before, node, self.cluster(cluster), now)

        return self.append(key, revise, actor=actor, config=config).state

    def add_nodes(self, cluster: str, nodes: Iterable[NewNode]) -> Iterator[NodeState | Rejected]:
        """Register many nodes one after the other; a refused one does not stop the others."""
        for node in nodes:
            try:
                yield self.add_node(cluster, node)
            except Rejected as error:
                yield error

    def _register(self, before: NodeState, node: NewNode, config: ClusterConfig, now: datetime) -> Transition:
        status = NodeStatus.HEALTHY if node.instance_id else NodeStatus.PROVISIONING
        state = replace(
            before,
            placement=_seat(node),
            incarnation=_incarnation(node, now),
            unverified=node.instance_id is not None,
        )
        draft = entry_builder.status_change(state, status, now, IMPORTED if node.instance_id else EMPTY_SEAT)
        beside = (
            *self._alias_writes(before.key, node, now),
            Put(_roster_item(before.key, node, config, now)),
            self._put_config(replace(config, expected=config.expected + 1, version=config.version + 1), now),
        )
        return Transition(replace(state, status=status), (draft,), beside)

    def _alias_writes(self, key: NodeKey, node: NewNode, now: datetime) -> Iterator[Write]:
        wanted = {keys.alias(*alias): alias for alias in aliases_of(key, node)}
        found = self.table.get_many(wanted)
        for place, alias in wanted.items():
            taken = items.read_alias(found[place]) if place in found else None
            if taken is not None and taken.valid_to is None and taken.key != key:
                raise Rejected("alias_taken", f"{alias.kind} {alias.value} leads to {taken.key.stream}")
            row = AliasRow(key, node.instance_id if node.bears(alias) else None, node.since or now)
            unchanged = Absent() if taken is None else Equals("valid_from", to_text(taken.valid_from))
            yield Put(items.alias_item(alias, row, now), when=unchanged)

    def _put_config(self, config: ClusterConfig, now: datetime) -> Put:
        return Put(items.config_item(config, now), when=Equals("version", config.version - 1))


def aliases_of(key: NodeKey, node: NewNode) -> tuple[Alias, ...]:
    """List the names under which records may claim a node; names count within their cluster, instances everywhere."""
    called = [Alias("name", f"{key.cluster}/{name}") for name in node.names]
    instances = [Alias("instance", node.instance_id)] if node.instance_id else []
    return tuple(dict.fromkeys([*called, *instances]))


def _checked(node: NewNode) -> NewNode:
    names.node_name(node.name)
    if node.instance_id is not None:
        names.instance_id(node.instance_id)
    aliases = tuple(dict.fromkeys(names.node_name(one) for one in node.aliases if one != node.name))
    for called in node.host_names:
        names.node_name(called)
    if len(aliases) > MAX_ALIASES:
        raise Rejected("too_many_aliases", f"{node.name} has {len(aliases)} aliases, at most {MAX_ALIASES} are kept")
    since = truncate(node.since) if node.since else None
    return replace(node, aliases=aliases, since=since)


def _same_seat(before: NodeState, node: NewNode) -> None:
    if before.status is NodeStatus.RETIRED:
        raise Rejected("node_retired", f"{before.key.stream} is retired; register the node under another name")
    sitting = before.incarnation.instance_id if before.incarnation else None
    if node.instance_id not in {None, sitting}:
        raise Rejected("node_exists", f"{before.key.stream} is registered already, with {sitting or 'no instance'}")


def _seat(node: NewNode) -> Placement:
    return Placement(
        group=node.group,
        instance_type=node.instance_type,
        domain=node.domain,
        aliases=node.aliases,
        domains=node.domains,
        host_names=node.others,
        slot=node.slot,
    )


def _incarnation(node: NewNode, now: datetime) -> Incarnation | None:
    if node.instance_id is None:
        return None
    return Incarnation(instance=1, boot=1, instance_id=node.instance_id, boot_id=None, since=node.since or now)


def _roster_item(key: NodeKey, node: NewNode, config: ClusterConfig, now: datetime) -> dict[str, Any]:
    return items.item(
        keys.roster(key.cluster, config.shard(key.node), key.node),
        now,
        {
            "node": key.node,
            "generation": 1 if node.instance_id else 0,
            "instance": node.instance_id,
            "group": node.group,
            "type": node.instance_type,
            "domain": node.domain,
            "zone": node.domains.get(DomainKind.ZONE),
            "names": list(node.others),
            "slot": node.slot,
            "described": node.instance_id if node.host_names else None,
        },
    )
