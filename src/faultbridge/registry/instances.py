"""Inventory: which machines a group has, as its provider tells it, and what its orchestrator calls them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import narrowest
from faultbridge.storage.writes import Item

OPT_OUT_TAG = "faultbridge:opt-out"
"""The tag of an instance that is to be left alone; `true` is the value that counts."""


@dataclass(frozen=True, slots=True)
class Member:
    """One instance as its group lists it; `slot` is the provider's own lasting name of the node, where it has one."""

    instance_id: str
    zone: str | None = None
    serving: bool = True
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One running instance of a group.

    `name` is what a node of it is called, `aliases` are the other names it goes by, `domains` what it shares with
    others, by kind.
    """

    instance_id: str
    name: str
    group: str
    instance_type: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    launched_at: datetime | None = None
    slot: str | None = None

    @property
    def domain(self) -> str | None:
        """Return the narrowest failure domain that is known."""
        return narrowest(self.domains)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which records may speak of it."""
        return tuple(dict.fromkeys((self.name, *self.aliases)))


class Inventory(Protocol):
    """Lists the machines of a cluster's groups."""

    def look(self, config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, Member]]:
        """Return the members of each group that there is, by instance id."""
        ...

    def describe(self, config: ClusterConfig, group: str, members: Mapping[str, Member]) -> tuple[Machine, ...]:
        """Describe members of a group, by name."""
        ...

    def machines(self, config: ClusterConfig, group: str) -> tuple[Machine, ...]:
        """List the machines that serve in a group, by name; `unknown_group` when there is no such group."""
        ...

    def gone(self, config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return those of the instances that are proven to be gone for good."""
        ...

    def opted_out(self, config: ClusterConfig) -> frozenset[str]:
        """Return the instances whose tag says that they are to be left alone."""
        ...


@dataclass(frozen=True, slots=True)
class Called:
    """What an orchestrator calls an instance, what it knows of where it is, and whether its label opts it out."""

    names: tuple[str, ...]
    domains: Mapping[str, str] = field(default_factory=dict)
    opted_out: bool = False


class Roll(Protocol):
    """Lists the nodes of a cluster as its orchestrator has them."""

    def call(self, config: ClusterConfig) -> Mapping[str, Called]:
        """Return what the nodes are called, by instance id; a cluster without an orchestrator has none."""
        ...


@dataclass(slots=True)
class Synced:
    """What a look at one cluster's groups found.

    `added` are new nodes, `reseated` those whose machine somebody else replaced, `gone` those whose machine serves no
    longer, `waiting` machines that are left to the repairs of such nodes; `refused` are machines that could not be
    registered, with the reason, and `unread` says which source did not answer.
    """

    cluster: str
    seats: int = 0
    added: list[str] = field(default_factory=list)
    reseated: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def quiet(self) -> bool:
        """Tell whether nothing was found that anybody would want to know."""
        return not (self.added or self.reseated or self.refreshed or self.gone or self.refused or self.unread)


NO_NAMES = Called(())


@dataclass(frozen=True, slots=True)
class Sitter:
    """A machine in, or for, a node: what it is called and where it is."""

    instance_id: str
    names: tuple[str, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    instance_type: str | None = None
    launched_at: datetime | None = None
    slot: str | None = None
    opted_out: bool = False


def sitter_of(machine: Machine, called: Called) -> Sitter:
    """Join what the provider and the orchestrator say of one machine."""
    return Sitter(
        machine.instance_id,
        tuple(dict.fromkeys((*machine.names, *called.names))),
        {**called.domains, **machine.domains},
        machine.instance_type,
        machine.launched_at,
        machine.slot,
        called.opted_out,
    )


def with_names(row: Item, called: Called) -> Sitter | None:
    """Add what an orchestrator says of a machine that is known already; None where that is nothing new."""
    had = row.get("names")
    known = tuple(str(name) for name in had) if isinstance(had, list) else ()
    if not set(called.names) - {*known, str(row["node"])} and called.opted_out == bool(row.get("opted_out")):
        return None
    return Sitter(str(row["instance"]), (*known, *called.names), called.domains, opted_out=called.opted_out)
