"""Registration: creates clusters and nodes (nothing else does), and changes a cluster's configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct, field

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules
from faultbridge.model import names
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import ClusterState, Control, ProviderCondition, RepairSetting
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, ConditionKind, NodeStatus
from faultbridge.model.errors import Conflict, Misconfigured, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, AliasRow, Head, Incarnation, Instance, NodeKey, NodeState, Placement
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Equals, Put
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.inventory import Inventory
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import cluster_config
from faultbridge.repair.registry.roster import aliases_of, new_alias_writes, new_row, placement_update
from faultbridge.repair.registry.verification import verify_before_service

__all__ = ["NewNode", "Registration"]


MAX_ALIASES = 20


class NewNode(Struct, frozen=True):
    """A node to register, with or without an instance that backs it.

    `aliases` are permanent names of the node. `host_names` are names of the current instance, and are dropped when the
    instance is replaced. `is_described` is True if the provider has reported the names and all failure domains of the
    instance.
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
    is_described: bool = False

    @classmethod
    def of_instance(cls, instance: Instance) -> NewNode:
        """Return the node to register for an instance; the node gets the preferred name of the instance."""
        return cls(
            name=instance.name,
            instance_id=instance.instance_id,
            group=instance.group,
            instance_type=instance.instance_type,
            domain=instance.domain,
            since=instance.launched_at,
            domains=instance.domains,
            host_names=instance.names,
            is_described=bool(instance.names) and instance.has_all_domains,
            slot=instance.slot,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the node and of its instance under which records can refer to the node."""
        return tuple(dict.fromkeys((self.name, *self.aliases, *self.host_names)))


def validated_node(node: NewNode) -> NewNode:
    """Return a new node without duplicate aliases; invalid names or ids raise Rejected."""
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


def _alias_rows(key: NodeKey, node: NewNode, now: datetime) -> Iterator[tuple[Alias, AliasRow]]:
    """Yield each alias of a new node (its names and its instance id) with the row to store for it."""
    for alias in aliases_of(key, node.names, node.instance_id):
        is_of_instance = alias.kind == "instance" or alias.value.partition("/")[2] in node.host_names
        yield alias, AliasRow(key, node.instance_id if is_of_instance else None, node.since or now)


def _placement(node: NewNode) -> Placement:
    return Placement(
        group=node.group,
        instance_type=node.instance_type,
        domain=node.domain,
        aliases=node.aliases,
        domains=node.domains,
        host_names=tuple(name for name in node.host_names if name != node.name),
        slot=node.slot,
        named_after=node.instance_id if names.is_host_name(node.name, node.host_names) else None,
    )


# The repair owner of a cluster: whether Faultbridge or the provider repairs its nodes.
#
# A registration is rejected if both or neither of them would repair the nodes.

RELEVANT = (
    "provider",
    "provider_role",
    "hyperpod_cluster",
    "eks_cluster",
    "karpenter_repairs",
    "repair_owner",
    "mode",
)


def check_repair_owner(
    inventories: Mapping[str, Inventory], config: ClusterConfig, before: ClusterConfig | None = None
) -> None:
    """Check that the repair owner of a registration does not contradict the provider's own setting.

    `before` is the configuration before the change, or None for a new cluster. Nothing is checked if no field in
    `RELEVANT` changed, or if the mode or the repair owner is `observe`.

    - Raises Rejected `rival_repair` if Faultbridge is the owner, but the provider repairs nodes too.
    - Raises Rejected `no_provider_repair` if the provider is the owner, but repairs no nodes.
    - Raises Transient or Misconfigured if the provider does not respond, because it is then unknown who repairs.
    """
    unchanged = before is not None and all(getattr(config, name) == getattr(before, name) for name in RELEVANT)
    if unchanged or not _names_owner(config):
        return
    inventory = inventories.get(config.provider)
    conflict = owner_conflict(config, inventory.repairs_nodes(config) if inventory else None)
    if conflict is not None:
        other = RepairOwner.PROVIDER if conflict.kind is ConditionKind.RIVAL_REPAIR else RepairOwner.FAULTBRIDGE
        raise Rejected(conflict.kind.value, f"{conflict.message}, or use --repair-owner {other.value}")


def owner_conflict(config: ClusterConfig, setting: RepairSetting | None) -> ProviderCondition | None:
    """Return the conflict between the repair owner and the provider's known setting, or None."""
    if setting is None or not _names_owner(config):
        return None
    if setting.repairs and config.repair_owner is RepairOwner.FAULTBRIDGE:
        text = f"{setting.name} repairs nodes of {config.cluster} itself; {setting.change}"
        return ProviderCondition(ConditionKind.RIVAL_REPAIR, text)
    if not setting.repairs and config.repair_owner is RepairOwner.PROVIDER:
        text = f"{setting.name} does not repair nodes of {config.cluster}; {setting.change}"
        return ProviderCondition(ConditionKind.NO_PROVIDER_REPAIR, text)
    return None


def _names_owner(config: ClusterConfig) -> bool:
    return config.mode is not Mode.OBSERVE and config.repair_owner is not RepairOwner.OBSERVE


SETTABLE = frozenset(ClusterConfig.__struct_fields__).difference(
    {"cluster", "shards", "nodes_per_shard", "version", "unknown_attributes"}
)
REASONS = {
    NodeStatus.HEALTHY: "import of a serving fleet, unverified",
    NodeStatus.VALIDATING: "a new instance joined the group; it is verified before it serves",
    NodeStatus.PROVISIONING: "node registered, no instance",
}
"""The reason of a node's first status."""


class Registration(Struct, frozen=True):
    """Registers clusters and nodes, and changes cluster configurations."""

    table: Table
    append: Append
    clock: Clock
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    def add_cluster(self, config: ClusterConfig) -> ClusterConfig:
        """Register a cluster; raises `cluster_exists`, or Rejected for an invalid configuration or owner."""
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
        """Return the configuration of a cluster, or None if it is not registered."""
        found = self.table.get(keys.cluster_config(cluster))
        return items.read_config(found) if found else None

    def cluster(self, cluster: str) -> ClusterConfig:
        """Return a cluster's configuration; an unregistered cluster raises Rejected `unknown_cluster`."""
        return cluster_config(self.table, cluster)

    def set_cluster(self, cluster: str, changes: Mapping[str, object]) -> ClusterConfig:
        """Change fields of a cluster's configuration; raises `not_settable`, Rejected or Conflict."""
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

    def pin_roles(self, config: ClusterConfig, instances: Iterable[Instance]) -> None:
        """Add (pin) the IAM roles of instances to the cluster's node roles.

        If a cluster has node roles, a record proves that an instance sent it only if one of these roles signed the
        record.
        """
        self._pin(config, {one.role_id for one in instances if one.role_id})

    def pin_roles_of(self, cluster: str, nodes: Iterable[NewNode]) -> None:
        """Add the IAM roles of new nodes' instances to the cluster's node roles.

        If the roles cannot be read and the cluster has no node roles, the provider's error is raised. In a cluster
        without node roles, any role that may send to the queue could send records in the name of an instance.
        """
        config = self.cluster(cluster)
        inventory = self.inventories.get(config.provider)
        instances = [node.instance_id for node in nodes if node.instance_id]
        if inventory is None or not instances:
            return
        try:
            self._pin(config, inventory.role_ids(config, instances))
        except (Transient, Misconfigured) as error:
            if not config.node_roles:
                raise type(error)(
                    f"the roles of the instances are unknown: {error}; `cluster set --node-role` states them"
                ) from error
            log_cause("node_roles_not_read", reason=str(error), cluster=config.cluster)

    def _pin(self, config: ClusterConfig, roles: Collection[str]) -> None:
        roles = set(roles)
        known = self.cluster(config.cluster).node_roles if roles - {*config.node_roles} else ()
        if new := roles - {*config.node_roles, *known}:
            log_cause(
                "node_roles_pinned", reason="found in instance profiles", cluster=config.cluster, roles=sorted(new)
            )
            self.set_cluster(config.cluster, {"node_roles": tuple(sorted({*known, *new}))})

    def add_node(
        self, cluster: str, node: NewNode, actor: Actor = Actor.CLI, *, verify: Rules | None = None
    ) -> NodeState:
        """Register a node.

        A node without an instance gets the status provisioning. A node with an instance gets the status healthy and is
        marked as never verified. With `verify`, the node gets the status validating instead, and a case verifies the
        instance before the node serves.

        A second registration of the same node and instance adds a missing group, instance type or domain, and changes
        nothing else. If another instance backs the node, Rejected `node_exists` is raised. If the node is retired,
        Rejected `node_retired` is raised. If a name leads to another node, Rejected `alias_taken` is raised.
        """
        config = self.cluster(cluster)
        node = validated_node(node)
        key = NodeKey(config.cluster, node.name)

        def revise(before: NodeState, now: datetime) -> Transition:
            if before.registered:
                _check_same_instance(before, node)
                return _with_missing_placement(before, node)
            # The configuration is read here, so that a retry after a conflict reads it again.
            registered = self._register(before, node, self.cluster(cluster), now, serves=verify is None)
            return registered if verify is None else verify_before_service(registered, verify, now)

        return self.append(key, revise, actor=actor).state

    def add_nodes(self, cluster: str, nodes: Iterable[NewNode]) -> Iterator[NodeState | Rejected]:
        """Register nodes one after the other; yield the state of each node, or the rejection of the node."""
        self.cluster(cluster)
        for node in nodes:
            try:
                yield self.add_node(cluster, node)
            except Rejected as error:
                yield error

    def _register(
        self, before: NodeState, node: NewNode, config: ClusterConfig, now: datetime, *, serves: bool
    ) -> Transition:
        incarnation, status = None, NodeStatus.PROVISIONING
        if node.instance_id is not None:
            incarnation = Incarnation(1, 1, node.instance_id, None, node.since or now)
            status = NodeStatus.HEALTHY if serves else NodeStatus.VALIDATING
        state = replace(
            before,
            shard=config.next_shard,
            placement=_placement(node),
            incarnation=incarnation,
            unverified=node.instance_id is not None,
        )
        draft = entry_builder.status_change(state, status, now, REASONS[status])
        writes = (
            *new_alias_writes(self.table, _alias_rows(before.key, node, now), now),
            new_row(state, now, described=node.is_described),
            self._put_config(replace(config.with_next_node(), version=config.version + 1), now),
        )
        return Transition(replace(state, status=status), (draft,), writes)

    def _put_config(self, config: ClusterConfig, now: datetime) -> Put:
        return Put(items.config_item(config, now), when=Equals("version", config.version - 1))


def _with_missing_placement(before: NodeState, node: NewNode) -> Transition:
    old = before.placement
    placement = replace(
        old,
        group=old.group or node.group,
        instance_type=old.instance_type or node.instance_type,
        domain=old.domain or node.domain,
    )
    if placement == old:
        return Transition(before)
    after = replace(before, placement=placement)
    return Transition(after, writes=(placement_update(after),))


def _check_same_instance(before: NodeState, node: NewNode) -> None:
    if before.status is NodeStatus.RETIRED:
        raise Rejected("node_retired", f"{before.key.stream} is retired; register the node under another name")
    current = before.instance_id
    if node.instance_id not in {None, current}:
        with_instance = f"with {current}" if current else "without an instance"
        text = f"{before.key.stream} is registered already, {with_instance}; retire it first, or use another name"
        raise Rejected("node_exists", text)
