"""Inventory: which machines a group has, as its provider tells it."""

from __future__ import annotations

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
    """Lists the machines of a group."""

    def machines(self, group: str) -> tuple[Machine, ...]:
        """List the instances that serve in a group, by name; `unknown_group` when there is no such group."""
        ...
