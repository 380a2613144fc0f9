"""Inventory: which machines a group has, as its provider tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Machine:
    """One running instance of a group; `name` is the host's own name, `aliases` are what else it is called."""

    instance_id: str
    name: str
    group: str
    instance_type: str | None = None
    domain: str | None = None
    aliases: tuple[str, ...] = ()
    launched_at: datetime | None = None


class Inventory(Protocol):
    """Lists the machines of groups."""

    def serving(self, groups: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the instances in service of each group that there is, with the zone of each."""
        ...

    def describe(self, group: str, serving: Mapping[str, str]) -> tuple[Machine, ...]:
        """Describe instances of a group, given with their zones, by name."""
        ...

    def machines(self, group: str) -> tuple[Machine, ...]:
        """List the instances that serve in a group, by name; `unknown_group` when there is no such group."""
        ...
