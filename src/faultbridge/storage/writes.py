"""Conditional table writes as values, executed by the DynamoDB adapter and by the fake table.

An item is a mapping of strings, packed values, integers, booleans, None, lists and mappings. Floats and sets are
excluded, because DynamoDB does not return them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, TypeAlias

from faultbridge.dataclass import dataclass


class Packed(bytes):
    """The bytes of a packed value, which the table stores as they are (DynamoDB's type Binary)."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return a short text for messages, instead of the bytes."""
        return f"{len(self)} packed bytes"


Value: TypeAlias = "str | Packed | int | bool | list[Value] | dict[str, Value] | None"
Item: TypeAlias = dict[str, Value]


class Key(NamedTuple):
    """The primary key of an item: partition key and sort key."""

    pk: str
    sk: str


@dataclass(frozen=True, slots=True)
class Absent:
    """Condition: no item exists at the key."""


@dataclass(frozen=True, slots=True)
class Present:
    """Condition: an item exists at the key."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Condition: the item's attribute has exactly this value; false without an item."""

    attribute: str
    value: str | int


@dataclass(frozen=True, slots=True)
class Below:
    """Condition: the item's attribute is less than this value; false without the item or the attribute."""

    attribute: str
    value: str | int


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Condition: at least one of these conditions is true."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Absent | Present | Equals | Below | AnyOf


@dataclass(frozen=True, slots=True)
class Put:
    """Write: store the complete item."""

    item: Item
    when: Condition | None = None

    @property
    def key(self) -> Key:
        """Return the key of the item."""
        return Key(str(self.item["pk"]), str(self.item["sk"]))


@dataclass(frozen=True, slots=True)
class Delete:
    """Write: delete the item; deleting an item that does not exist is no error."""

    key: Key
    when: Condition | None = None


Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """Write: set or remove the attributes at these paths (`("holders", "c-1")`), and add to numbers.

    `add` treats a missing top-level number as 0. To set or remove a key of a mapping, the mapping must exist.
    """

    key: Key
    set: Mapping[Path, Value] = field(default_factory=dict)
    remove: tuple[Path, ...] = ()
    add: Mapping[str, int] = field(default_factory=dict)
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but fail the transaction unless the condition is true."""

    key: Key
    when: Condition


Write: TypeAlias = Put | Delete | Update | Check


@dataclass(frozen=True, slots=True)
class Page:
    """Items of one query in key order, and the token of the next page, None after the last page."""

    items: tuple[Item, ...]
    next: str | None = None


class Index(NamedTuple):
    """A global secondary index: its name, the attributes of its key, and whether it contains only the keys of items."""

    name: str
    pk: str
    sk: str
    keys_only: bool = False


TIMELINE = Index("gsi1", "gsi1pk", "gsi1sk")
CASES = Index("gsi2", "gsi2pk", "gsi2sk")
DEVICES = Index("gsi3", "gsi3pk", "gsi3sk")
WORK = Index("gsi4", "gsi4pk", "gsi4sk", keys_only=True)
EVENTS = Index("gsi5", "gsi5pk", "gsi1sk", keys_only=True)
EFFECTS = Index("gsi6", "gsi6pk", "gsi1sk", keys_only=True)
INDEXES = (TIMELINE, CASES, DEVICES, WORK, EVENTS, EFFECTS)
