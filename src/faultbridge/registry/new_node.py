"""New nodes: what is known about a node at its registration, and its first state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain import names
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.instances import Instance
from faultbridge.domain.nodes import Alias, AliasRow, Incarnation, NodeKey, Placement
from faultbridge.domain.times import truncate
from faultbridge.errors import Rejected
from faultbridge.registry.aliases import aliases_of

MAX_ALIASES = 20


@dataclass(frozen=True, slots=True)
class NewNode:
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

    @property
    def other_host_names(self) -> tuple[str, ...]:
        """Return the names of the instance that differ from the node's own name."""
        return tuple(name for name in self.host_names if name != self.name)

    def is_instance_alias(self, alias: Alias) -> bool:
        """Return whether an alias belongs to the instance, so that it ends when the instance is replaced."""
        return alias.kind == "instance" or alias.value.partition("/")[2] in self.host_names


def validated_node(node: NewNode) -> NewNode:
    """Check the names and the instance id of a new node; return the node without duplicate aliases.

    Invalid names or ids, and too many aliases, raise Rejected.
    """
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


def first_status_of(node: NewNode, *, serving: bool) -> NodeStatus:
    """Return a node's first status: provisioning, healthy or validating.

    It is provisioning without an instance, healthy with an instance if `serving`, and else validating.
    """
    if node.instance_id is None:
        return NodeStatus.PROVISIONING
    return NodeStatus.HEALTHY if serving else NodeStatus.VALIDATING


def alias_rows_of(key: NodeKey, node: NewNode, now: datetime) -> Iterator[tuple[Alias, AliasRow]]:
    """Yield each alias of a new node (its names and its instance id) with the row to store for it."""
    for alias in aliases_of(key, node.names, node.instance_id):
        yield alias, AliasRow(key, node.instance_id if node.is_instance_alias(alias) else None, node.since or now)


def placement_of(node: NewNode) -> Placement:
    """Return the placement of a new node: its group, instance type, failure domains and names."""
    return Placement(
        group=node.group,
        instance_type=node.instance_type,
        domain=node.domain,
        aliases=node.aliases,
        domains=node.domains,
        host_names=node.other_host_names,
        slot=node.slot,
        named_after=node.instance_id if names.is_host_name(node.name, node.host_names) else None,
    )


def incarnation_of(node: NewNode, now: datetime) -> Incarnation | None:
    """Return the first instance and boot of a new node, or None without an instance."""
    if node.instance_id is None:
        return None
    return Incarnation(instance=1, boot=1, instance_id=node.instance_id, boot_id=None, since=node.since or now)
