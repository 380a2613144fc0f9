"""The plan of a sweep: the clusters and the partitions of the work index that it reads, in the order of a minute.

The order is random and changes each minute: in a fixed order, the last ones would never be reached under overload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import TypeVar

from faultbridge.ledger.queries import query_all
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import NUMBERS, Work, used_numbers

MINUTES_IN_HOUR = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The registered clusters, and the numbers of the partitions of the work index to read, in order.

    Without a readable list of clusters, the plan has no clusters and all numbers.
    """

    clusters: Sequence[str] = ()
    numbers: Sequence[int] = NUMBERS

    def partitions(self, kind: Work) -> Iterator[str]:
        """Yield the partitions of one kind of work."""
        return kind.partitions(self.numbers)


def read_plan(table: Table, now: datetime) -> SweepPlan:
    """Return the plan of the sweep of a minute."""
    clusters = [str(row["sk"]) for row in query_all(table, keys.CLUSTERS)]
    found = table.get_many(map(keys.cluster_config, clusters))
    configs = map(items.read_config, found.values())
    return SweepPlan(shuffled(clusters, now), numbers_to_read({one.cluster: one.shards for one in configs}, now))


def numbers_to_read(shards: Mapping[str, int], now: datetime) -> list[int]:
    """Return the numbers of the partitions that clusters with these numbers of shards use, in the order of the minute.

    In the first minute of an hour these are all numbers. Rows elsewhere would be those of an earlier release.
    """
    if _minute(now) % MINUTES_IN_HOUR == 0:
        return shuffled(NUMBERS, now)
    used = {
        number for cluster, count in {keys.NO_CLUSTER: 1, **shards}.items() for number in used_numbers(cluster, count)
    }
    return shuffled(sorted(used), now)


def shuffled(things: Iterable[T], now: datetime) -> list[T]:
    """Return things in the order of the minute."""
    listed = list(things)
    return [listed[place] for place in _order(_minute(now), len(listed))]


def _minute(now: datetime) -> int:
    return int(now.timestamp()) // 60


@lru_cache(maxsize=8)
def _order(minute: int, count: int) -> tuple[int, ...]:
    """Return a random order of a number of things for a minute."""
    order = list(range(count))
    Random(minute).shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(order)
