"""Sweep plan: the order in which a sweep reads the clusters and the index partitions of waiting work.

The order is random and drawn again each minute. With a fixed order, the last clusters and partitions would never be
processed under overload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import NUMBERS, Work, used_numbers

MINUTES_IN_HOUR = 60
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The clusters, and the partition numbers of the index of waiting work, in the order of reading.

    `retry_numbers` are the partition numbers for retries of rejected records, and `numbers` those for other work.
    Retries use fewer partitions, because they are not spread over the shards of a cluster. A plan without arguments has
    no clusters and all partition numbers.
    """

    clusters: Sequence[str] = ()
    numbers: Sequence[int] = NUMBERS
    retry_numbers: Sequence[int] = NUMBERS

    def partitions(self, kind: Work) -> Iterator[str]:
        """Yield the partition keys of one kind of work, in the order of the plan."""
        return kind.partitions(self.retry_numbers if kind is Work.RETRY else self.numbers)


def list_clusters(table: Table, now: datetime) -> SweepPlan:
    """Return a plan with all registered clusters, in a random order that depends on the minute of `now`.

    The plan contains all partition numbers of the index of waiting work; `narrowed` reduces them.
    """
    return SweepPlan(shuffled((str(row["sk"]) for row in query_all(table, keys.CLUSTERS)), now))


def narrowed(plan: SweepPlan, table: Table, now: datetime) -> SweepPlan:
    """Return the plan with only the partition numbers in use (`numbers_to_read`).

    The registrations of the clusters determine these numbers. In the first minute of each hour, all numbers are kept.
    If the registrations cannot be read, the error is raised, and the sweep uses the plan with all numbers.
    """
    found = table.get_many(map(keys.cluster_config, plan.clusters))
    shards = {one.cluster: one.shards for one in map(items.read_config, found.values())}
    return plan_for(plan.clusters, shards, now)


def plan_for(clusters: Sequence[str], shards: Mapping[str, int], now: datetime) -> SweepPlan:
    """Return a plan with `clusters` in this order; `shards` maps each cluster to its number of shards."""
    retries = numbers_to_read(dict.fromkeys(shards, 1), now)
    return SweepPlan(clusters, numbers_to_read(shards, now), retries)


def numbers_to_read(shards: Mapping[str, int], now: datetime) -> list[int]:
    """Return the partition numbers in use, in a random order for this minute.

    Registered clusters and records of unknown clusters use these numbers. `shards` maps each cluster to its number of
    shards. In the first minute of each hour, all numbers are returned, because an earlier release may have written rows
    to other partitions.
    """
    if _minute(now) % MINUTES_IN_HOUR == 0:
        return shuffled(NUMBERS, now)
    used = {
        number for cluster, count in {keys.NO_CLUSTER: 1, **shards}.items() for number in used_numbers(cluster, count)
    }
    return shuffled(sorted(used), now)


def shuffled(things: Iterable[T], now: datetime) -> list[T]:
    """Return the given values in a random order.

    The order depends only on the minute of `now` and on the number of values.
    """
    listed = list(things)
    return [listed[place] for place in _order(_minute(now), len(listed))]


def _minute(now: datetime) -> int:
    return int(now.timestamp()) // 60


@lru_cache(maxsize=8)
def _order(minute: int, count: int) -> tuple[int, ...]:
    order = list(range(count))
    Random(minute).shuffle(order)  # noqa: S311 - an order, not a secret
    return tuple(order)
