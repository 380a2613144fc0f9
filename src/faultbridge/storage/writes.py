"""Writes and their conditions as values, so that a fake, an adapter and a mutant can all read them.

An item is a flat or nested mapping of strings, whole numbers, booleans, None, lists and mappings: no floats, no
bytes, no sets, because none of those comes back from the table as it went in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value] | None"
Item: TypeAlias = dict[str, Value]


class Key(NamedTuple):
    """Where an item stands."""

    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Absent:
    """No item stands at the key."""


@dataclass(frozen=True, slots=True)
class Present:
    """An item stands at the key."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The item's attribute has exactly this value; false where there is no item."""

    attribute: str
    value: str | int


@dataclass(frozen=True, slots=True)
class Below:
    """The item's attribute is less than this value; false where there is no item or attribute."""

    attribute: str
    value: str | int


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the conditions holds."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Absent | Present | Equals | Below | AnyOf


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item."""

    item: Item
    when: Condition | None = None

    @property
    def key(self) -> Key:
        """Return where the item goes."""
        return Key(str(self.item["pk"]), str(self.item["sk"]))


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the item; removing what is not there is no error."""

    key: Key
    when: Condition | None = None


Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes: set, remove or add to the ones at these paths (`("holders", "c-1")`).

    `add` creates a missing top-level number at 0 first. A set or remove below a mapping needs that mapping.
    """

    key: Key
    set: Mapping[Path, Value] = field(default_factory=dict)
    remove: tuple[Path, ...] = ()
    add: Mapping[str, int] = field(default_factory=dict)
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but let the transaction fail unless the condition holds."""

    key: Key
    when: Condition


Write: TypeAlias = Put | Delete | Update | Check


@dataclass(frozen=True, slots=True)
class Page:
    """Items of one query in key order, and where the next page begins (None at the end)."""

    items: tuple[Item, ...]
    next: str | None = None


class Index(NamedTuple):
    """One of the four overloaded indexes, by name and key attributes."""

    name: str
    pk: str
    sk: str


TIMELINE = Index("gsi1", "gsi1pk", "gsi1sk")
CASES = Index("gsi2", "gsi2pk", "gsi2sk")
DEVICES = Index("gsi3", "gsi3pk", "gsi3sk")
WORK = Index("gsi4", "gsi4pk", "gsi4sk")
INDEXES = (TIMELINE, CASES, DEVICES, WORK)
