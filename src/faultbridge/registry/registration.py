"""Registration: creates clusters and nodes, and changes the configuration of a cluster.

No other module creates a node. A record about an unregistered node is rejected and stored for a retry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain import names
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.state import ClusterState, Control
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.instances import Instance
from faultbridge.domain.nodes import Head, NodeKey, NodeState
from faultbridge.errors import Conflict, Misconfigured, Rejected, Transient
from faultbridge.ledger.append import Append
from faultbridge.ledger.queries import cluster_config
from faultbridge.log import log_cause
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.ports import Clock, Table
from faultbridge.registry.aliases import new_alias_writes
from faultbridge.registry.instances import Inventory
from faultbridge.registry.new_node import (
    NewNode,
    alias_rows_of,
    first_status_of,
    incarnation_of,
    placement_of,
    validated_node,
)
from faultbridge.registry.repair_owner import check_repair_owner
from faultbridge.registry.roster import new_row, placement_update
from faultbridge.registry.verification.cases import verify_before_service
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Equals, Put

__all__ = ["NewNode", "Registration"]

SETTABLE = frozenset(one.name for one in fields(ClusterConfig)) - {"cluster", "shards", "nodes_per_shard", "version"}
REASONS = {
    NodeStatus.HEALTHY: "import of a serving fleet, unverified",
    NodeStatus.VALIDATING: "a new instance joined the group; it is verified before it serves",
    NodeStatus.PROVISIONING: "node registered, no instance",
}
"""The reason of a node's first status."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Registers clusters and nodes, and changes cluster configurations."""

    table: Table
    append: Append
    clock: Clock
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    def add_cluster(self, config: ClusterConfig) -> ClusterConfig:
        """Register a cluster, by default in mode `observe`.

        A name that is already in use raises Rejected `cluster_exists`. An invalid configuration, or one whose repair
        owner contradicts the provider's setting, raises Rejected too. If this setting cannot be read, Transient or
        Misconfigured is raised.
        """
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

    def set_cluster(self, cluster: str, changes: Mapping[str, Any]) -> ClusterConfig:
        """Change fields of a cluster's configuration, and return the new configuration.

        A field that is not in SETTABLE raises Rejected `not_settable`. An invalid configuration, or a conflicting
        repair owner, raises Rejected too. Raises Conflict if another process changed the configuration meanwhile.
        """
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
            status = first_status_of(node, serving=verify is None)
            registered = self._register(before, node, status, self.cluster(cluster), now)
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
        self, before: NodeState, node: NewNode, status: NodeStatus, config: ClusterConfig, now: datetime
    ) -> Transition:
        state = replace(
            before,
            shard=config.next_shard,
            placement=placement_of(node),
            incarnation=incarnation_of(node, now),
            unverified=node.instance_id is not None,
        )
        draft = entry_builder.status_change(state, status, now, REASONS[status])
        writes = (
            *new_alias_writes(self.table, alias_rows_of(before.key, node, now), now),
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
    current = before.incarnation.instance_id if before.incarnation else None
    if node.instance_id not in {None, current}:
        with_instance = f"with {current}" if current else "without an instance"
        text = f"{before.key.stream} is registered already, {with_instance}; retire it first, or use another name"
        raise Rejected("node_exists", text)
