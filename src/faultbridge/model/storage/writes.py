"""Writes: classes that describe conditional writes and the indexes of the table.

An item is a mapping of strings, packed values, integers, booleans, None, lists and mappings. Floats and sets are
excluded, because DynamoDB does not return them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field

from faultbridge.model.cluster.config import shard_of


class Packed(bytes):
    """The bytes of a compressed value, which the table stores unchanged (DynamoDB's type Binary)."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return a short text for log and error messages, instead of the bytes."""
        return f"{len(self)} packed bytes"


Value: TypeAlias = "str | Packed | int | bool | list[Value] | dict[str, Value] | None"
Item: TypeAlias = dict[str, Value]


class ReadItem(dict[str, Value]):
    """An item that was read and is not changed: `decoded` keeps the values that were already decoded from it."""

    decoded: dict[tuple[type, str | None], Any] | None = None


class Key(NamedTuple):
    """The primary key of an item: partition key and sort key."""

    pk: str
    sk: str


class Absent(Struct, frozen=True):
    """Condition: no item exists at the key."""


class Present(Struct, frozen=True):
    """Condition: an item exists at the key."""


class Equals(Struct, frozen=True):
    """Condition: the item's attribute has exactly this value; false if the item or attribute is missing."""

    attribute: str
    value: str | int


class Below(Struct, frozen=True):
    """Condition: the item's attribute is less than this value; false if the item or attribute is missing."""

    attribute: str
    value: str | int


class AnyOf(Struct, frozen=True):
    """Condition: at least one of these conditions is true."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Absent | Present | Equals | Below | AnyOf


class Put(Struct, frozen=True):
    """Write: store the complete item, and replace an item with the same key."""

    item: Item
    when: Condition | None = None

    @property
    def key(self) -> Key:
        """Return the key of the item to store."""
        return Key(str(self.item["pk"]), str(self.item["sk"]))


class Delete(Struct, frozen=True):
    """Write: delete the item; deleting an item that does not exist is no error."""

    key: Key
    when: Condition | None = None


Path: TypeAlias = tuple[str, ...]


class Update(Struct, frozen=True):
    """Write: set or remove the attributes at these paths (`("holders", "c-1")`), and add to numbers.

    `add` treats a missing top-level number as 0. To set or remove a key of a mapping, the mapping must exist.
    """

    key: Key
    set: Mapping[Path, Value] = field(default_factory=dict)
    remove: tuple[Path, ...] = ()
    add: Mapping[str, int] = field(default_factory=dict)
    when: Condition | None = None


class Check(Struct, frozen=True):
    """Write nothing, but fail the transaction unless the condition is true."""

    key: Key
    when: Condition


Write: TypeAlias = Put | Delete | Update | Check


class Page(Struct, frozen=True):
    """One page of a query: its items in the order of the query, and the token of the next page.

    The token is None on the last page.
    """

    items: tuple[Item, ...]
    next: str | None = None


class Index(NamedTuple):
    """A global secondary index: its name, its key attributes, and whether it contains only keys of items."""

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

NUMBERS = range(16)
"""The numbers of the partitions of each kind of work."""

USED_BY_SHARD = 2
"""How many partitions of each kind of work a shard uses, because most node changes write two rows."""


class Work(Enum):
    """The kinds of waiting work in the index `WORK`; each value is the prefix of its partition names.

    The partitions are numbered. A small cluster uses few of them, so that a sweep reads few. A large cluster uses all
    of them, so that no partition exceeds DynamoDB's limit of writes. The first number that a cluster uses depends
    on its name, so that clusters are spread over the partitions.
    """

    UNPUBLISHED = "OUT"
    TIMER = "DUE"
    RETRY = "RETRY"

    def row(self, cluster: str, shard: int, name: str, since: str) -> dict[str, str]:
        """Return the attributes that list an item as waiting work in the index `WORK`.

        `shard` is the shard of the item's node in the cluster, or 0 for an item without a node. `name` spreads the
        items of one shard over several partitions. `since` is the time by which the items of a partition are sorted.
        """
        number = shard_of(cluster, len(NUMBERS)) + USED_BY_SHARD * shard + shard_of(name, USED_BY_SHARD)
        return {"gsi4pk": self.partition(number % len(NUMBERS)), "gsi4sk": since}

    def partition(self, number: int) -> str:
        """Return the name of the index partition with this number, for this kind of work."""
        return f"{self._value_}#{number}"

    def partitions(self, numbers: Iterable[int] = NUMBERS) -> Iterator[str]:
        """Yield the names of this work's index partitions with these numbers; by default, of all partitions."""
        return map(self.partition, numbers)


def used_numbers(cluster: str, shards: int) -> Iterator[int]:
    """Yield the numbers of the work index partitions that a cluster with `shards` shards uses."""
    first = shard_of(cluster, len(NUMBERS))
    return ((first + used) % len(NUMBERS) for used in range(min(USED_BY_SHARD * shards, len(NUMBERS))))
