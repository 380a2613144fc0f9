"""A table with a long history, built without writes, that counts the requests and items of each query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Draft, seal
from faultbridge.model.enums import Actor, EntryType
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import INDEXES, Index, Item, Key, Page
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from tests.builders import NOON, STACK_ID, fault_data, node
from tests.sim.fakes.table import projected

CLUSTER = "train-a"
STACK = Stack(STACK_ID, "faultbridge")
MEGABYTE = 1 << 20
READ_UNIT = 4096
LAST = "\U0010ffff"
"""Sorts after every character of a sort key."""

HIGHEST = Key(LAST, LAST)


class BulkTable:
    """The read methods of a Table (fake), fast at any size.

    `requests` counts the calls, `read` the returned items, `units` the read units that DynamoDB bills: one for each
    4 KB of an item or a query, half of it for an index, whose reads are not consistent.
    """

    def __init__(self, rows: Iterable[Item]) -> None:
        self._items: dict[Key, Item] = {}
        self._partitions: dict[tuple[str | None, str], list[tuple[str, Key]]] = defaultdict(list)
        for row in rows:
            key = Key(str(row["pk"]), str(row["sk"]))
            self._items[key] = row
            self._partitions[None, key.pk].append((key.sk, key))
            for index in INDEXES:
                if index.pk in row:
                    self._partitions[index.name, str(row[index.pk])].append((str(row[index.sk]), key))
        for partition in self._partitions.values():
            partition.sort()
        self.requests = 0
        self.read = 0
        self.units = 0.0

    def get(self, key: Key) -> Item | None:
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        wanted = list(dict.fromkeys(keys))
        self.requests += -(-len(wanted) // 100)
        self.read += len(wanted)
        self.units += sum(-(-_size(self._items.get(key)) // READ_UNIT) for key in wanted) / (1 if consistent else 2)
        return {key: self._items[key] for key in wanted if key in self._items}

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        up_to: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        rows = self._partitions.get((index.name if index else None, pk), [])
        low, high = bisect_left(rows, (prefix,)), bisect_left(rows, (f"{prefix}{LAST}",)) if prefix else len(rows)
        if after is not None:
            low = max(low, bisect_right(rows, (after, HIGHEST)))
        if up_to is not None:
            high = min(high, bisect_right(rows, (up_to, HIGHEST)))
        if start is not None and newest_first:
            high = min(high, bisect_left(rows, (start,)))
        elif start is not None:
            low = max(low, bisect_right(rows, (start, HIGHEST)))
        found: list[Item] = []
        size, more = 0, None
        for position in range(high - 1, low - 1, -1) if newest_first else range(low, high):
            if len(found) == limit or size >= MEGABYTE:
                more = str(found[-1][index.sk if index else "sk"])
                break
            item = self._items[rows[position][1]]
            found.append(projected(item, index) if index else item)
            size += _size(found[-1])
        self.requests += 1
        self.read += len(found)
        self.units += max(-(-size // READ_UNIT), 1) * (0.5 if index else 1)
        return Page(tuple(found), more)

    def write(self, write: Any) -> None:
        raise AssertionError("nothing is written here")

    def transact(self, writes: Any, token: str | None = None) -> None:
        raise AssertionError("nothing is written here")


def _size(item: Item | None) -> int:
    """Return the bytes that DynamoDB counts for an item, closely; 1 for an item that does not exist."""
    return len(str(item)) if item else 1


def history(entries: int, nodes: int, shards: int) -> BulkTable:
    """Return a cluster's history: equally many entries, one device and one case a node."""
    return BulkTable(rows(entries, nodes, shards))


def rows(entries: int, nodes: int, shards: int) -> Iterator[Item]:
    """Yield the items of such a history in the order of recording."""
    config = ClusterConfig(CLUSTER, shards=shards, expected=nodes)
    yield items.config_item(config, NOON)
    heads = {NodeKey(CLUSTER, f"n-{number:04d}"): Head() for number in range(nodes)}
    for number in range(entries // nodes):
        for offset, (key, head) in enumerate(heads.items()):
            at = NOON + timedelta(seconds=number * 60, milliseconds=offset)
            draft = Draft(
                EntryType.FAULT_UPDATED,
                at,
                fault_data("xid.48", Component(ComponentType.GPU, uuid=f"GPU-{offset}"), "x" * 300),
                case_id=f"c-{offset}",
            )
            sealed, heads[key] = seal(
                STACK.stream(*key), head, (draft,), actor=Actor.INGEST, severity=None, recorded_at=at
            )
            yield items.entry_item(sealed[0], keys.node_partition(key), offset % shards)
    for key, head in heads.items():
        yield items.state_item(replace(node(), key=key, head=head), NOON)
