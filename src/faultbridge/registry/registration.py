"""Registration: creates clusters and nodes, and changes the configuration of a cluster.

No other module creates a node. A record about an unregistered node is stored as a reject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from faultbridge.domain import names
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.state import ClusterState, Control
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.instances import Instance
from faultbridge.domain.nodes import Alias, AliasRow, Head, Incarnation, NodeKey, NodeState, Placement
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected, UnknownName
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, Table
from faultbridge.registry.aliases import aliases_of
from faultbridge.registry.instances import Inventory
from faultbridge.registry.repair_owner import check_repair_owner
from faultbridge.registry.roster import new_row
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Equals, Put, Write

MAX_ALIASES = 20
SETTABLE = frozenset(one.name for one in fields(ClusterConfig)) - {"cluster", "shards", "nodes_per_shard", "version"}
SERVING_NODE_REASON = "import of a serving fleet, unverified"
EMPTY_NODE_REASON = "node registered, no instance"


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to register, with the instance that backs it, or without one.

    `aliases` are permanent names of the node; `host_names` are names of the current instance and end with it.
    """

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
    def of_instance(cls, instance: Instance) -> NewNode:
        """Return the node that an instance backs; it gets the preferred name of the instance."""
        return cls(
            name=instance.name,
            instance_id=instance.instance_id,
            group=instance.group,
            instance_type=instance.instance_type,
            domain=instance.domain,
            since=instance.launched_at,
            domains=instance.domains,
            host_names=instance.names,
            slot=instance.slot,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which records can refer to the node."""
        return tuple(dict.fromkeys((self.name, *self.aliases, *self.host_names)))

    @property
    def other_host_names(self) -> tuple[str, ...]:
        """Return the names of the instance that differ from the node's own name."""
        return tuple(name for name in self.host_names if name != self.name)

    def is_instance_alias(self, alias: Alias) -> bool:
        """Return whether an alias belongs to the instance, so that it ends when the instance is replaced."""
        return alias.kind == "instance" or alias.value.partition("/")[2] in self.host_names


@dataclass(frozen=True, slots=True)
class Registration:
    """Registers clusters and nodes, and changes cluster configurations."""

    table: Table
    append: Append
    clock: Clock
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    def add_cluster(self, config: ClusterConfig) -> ClusterConfig:
        """Register a cluster; by default it only observes. Rejects a name in use as `cluster_exists`."""
        names.cluster_name(config.cluster)
        now, config = self.clock.now(), replace(config.validated(), version=1)
        check_repair_owner(self.inventories, config)
        listed = items.item(keys.cluster_listed(config.cluster), now, {"cluster": config.cluster})
        new_items = (
            items.config_item(config, now),
            items.control_item(Control(config.cluster), now),
            items.cluster_item(ClusterState(config.cluster, Head(version=1)), now),
            listed,
        )
        try:
            self.table.transact([Put(item, when=Absent()) for item in new_items])
        except Conflict:
            if self.find_cluster(config.cluster) is None:
                raise
            raise Rejected("cluster_exists", f"{config.cluster} is registered already; run cluster set") from None
        return config

    def find_cluster(self, cluster: str) -> ClusterConfig | None:
        """Return the configuration of a cluster, or None when it is not registered."""
        found = self.table.get(keys.cluster_config(cluster))
        return items.read_config(found) if found else None

    def cluster(self, cluster: str) -> ClusterConfig:
        """Return the configuration of a cluster; rejects an unregistered one as `unknown_cluster`."""
        config = self.find_cluster(cluster)
        if config is None:
            raise UnknownName("cluster", cluster)
        return config

    def set_cluster(self, cluster: str, changes: Mapping[str, Any]) -> ClusterConfig:
        """Change the configuration of a cluster, under a condition on its version."""
        for name in changes:
            if name not in SETTABLE:
                allowed = ", ".join(sorted(SETTABLE))
                raise Rejected("not_settable", f"field cannot be set: {name}; allowed: {allowed}")
        config = self.cluster(cluster)
        changed = replace(config, **changes).validated()
        if changed != config:
            check_repair_owner(self.inventories, changed, before=config)
            changed = replace(changed, version=config.version + 1)
            self.table.write(self._put_config(changed, self.clock.now()))
        return changed

    def add_node(self, cluster: str, node: NewNode, actor: Actor = Actor.CLI) -> NodeState:
        """Register a node: with an instance it is healthy and unverified, without one it is provisioning.

        Registering the same node and instance again changes nothing. Rejects a node that another instance backs as
        `node_exists`, and a name that leads to another node as `alias_taken`.
        """
        config = self.cluster(cluster)
        node = _validated(node)
        key = NodeKey(config.cluster, node.name)

        def revise(before: NodeState, now: datetime) -> Transition:
            if before.registered:
                _check_same_instance(before, node)
                return Transition(before)
            # The configuration is read here, so that a retry after a conflict reads it again.
            return self._register(before, node, self.cluster(cluster), now)

        return self.append(key, revise, actor=actor).state

    def add_nodes(self, cluster: str, nodes: Iterable[NewNode]) -> Iterator[NodeState | Rejected]:
        """Register nodes one after the other; yields the rejection of a refused node and continues."""
        self.cluster(cluster)
        for node in nodes:
            try:
                yield self.add_node(cluster, node)
            except Rejected as error:
                yield error

    def _register(self, before: NodeState, node: NewNode, config: ClusterConfig, now: datetime) -> Transition:
        """Return the transition that creates a node, with its aliases, roster row and the new node count."""
        status = NodeStatus.HEALTHY if node.instance_id else NodeStatus.PROVISIONING
        state = replace(
            before,
            shard=config.next_shard,
            placement=_placement(node),
            incarnation=_incarnation(node, now),
            unverified=node.instance_id is not None,
        )
        draft = entry_builder.status_change(
            state, status, now, SERVING_NODE_REASON if node.instance_id else EMPTY_NODE_REASON
        )
        writes = (
            *self._alias_writes(before.key, node, now),
            new_row(state, now, described=bool(node.host_names)),
            self._put_config(replace(config.with_next_node(), version=config.version + 1), now),
        )
        return Transition(replace(state, status=status), (draft,), writes)

    def _alias_writes(self, key: NodeKey, node: NewNode, now: datetime) -> Iterator[Write]:
        """Yield the writes of a new node's aliases; rejects an alias that leads to another node."""
        aliases = {keys.alias(*alias): alias for alias in aliases_of(key, node.names, node.instance_id)}
        found = self.table.get_many(aliases)
        for alias_key, alias in aliases.items():
            current = items.read_alias(found[alias_key]) if alias_key in found else None
            if current is not None and current.valid_to is None and current.key != key:
                owner = current.key.stream
                text = f"{alias.kind} {alias.value} leads to another node: {owner}"
                raise Rejected("alias_taken", f"{text}; retire it first, or use another name")
            row = AliasRow(key, node.instance_id if node.is_instance_alias(alias) else None, node.since or now)
            unchanged = Absent() if current is None else Equals("valid_from", to_text(current.valid_from))
            yield Put(items.alias_item(alias, row, now), when=unchanged)

    def _put_config(self, config: ClusterConfig, now: datetime) -> Put:
        return Put(items.config_item(config, now), when=Equals("version", config.version - 1))


def _validated(node: NewNode) -> NewNode:
    """Return the node with duplicate aliases removed; rejects invalid names and ids."""
    names.node_name(node.name)
    if node.instance_id is not None:
        names.instance_id(node.instance_id)
    aliases = tuple(dict.fromkeys(names.node_name(one) for one in node.aliases if one != node.name))
    for host_name in node.host_names:
        names.node_name(host_name)
    if len(aliases) > MAX_ALIASES:
        text = f"too many aliases: {node.name} has {len(aliases)}; allowed: at most {MAX_ALIASES}"
        raise Rejected("too_many_aliases", text)
    since = truncate(node.since) if node.since else None
    return replace(node, aliases=aliases, since=since)


def _check_same_instance(before: NodeState, node: NewNode) -> None:
    """Reject the registration of a retired node, or of a node that another instance backs."""
    if before.status is NodeStatus.RETIRED:
        raise Rejected("node_retired", f"{before.key.stream} is retired; register the node under another name")
    current = before.incarnation.instance_id if before.incarnation else None
    if node.instance_id not in {None, current}:
        with_instance = f"with {current}" if current else "without an instance"
        text = f"{before.key.stream} is registered already, {with_instance}; retire it first, or use another name"
        raise Rejected("node_exists", text)


def _placement(node: NewNode) -> Placement:
    return Placement(
        group=node.group,
        instance_type=node.instance_type,
        domain=node.domain,
        aliases=node.aliases,
        domains=node.domains,
        host_names=node.other_host_names,
        slot=node.slot,
    )


def _incarnation(node: NewNode, now: datetime) -> Incarnation | None:
    if node.instance_id is None:
        return None
    return Incarnation(instance=1, boot=1, instance_id=node.instance_id, boot_id=None, since=node.since or now)
