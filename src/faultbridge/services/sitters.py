"""Sitters: machines in seats, as their provider and their orchestrator together know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.services.inventory import Called, Machine
from faultbridge.storage.writes import Item

NO_NAMES = Called(())


@dataclass(frozen=True, slots=True)
class Sitter:
    """A machine in, or for, a seat: what it is called and where it is."""

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
