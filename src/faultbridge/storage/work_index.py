"""The index of waiting work: unpublished entries, timers, and retries of rejected records.

Its partitions are numbered. A small cluster uses few of them, so that a sweep reads few. A large cluster uses all of
them, so that no partition exceeds DynamoDB's limit of writes. Different clusters start at different numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from faultbridge.domain.cluster.config import shard_of

NUMBERS = range(16)
"""The numbers of the partitions of each kind of work."""

USED_BY_SHARD = 2
"""How many partitions the nodes of one shard of a cluster use, because most of their changes write two rows."""


class Work(Enum):
    """The kinds of waiting work; the value begins the name of the partitions of its rows."""

    UNPUBLISHED = "OUT"
    TIMER = "DUE"
    RETRY = "RETRY"

    def row(self, cluster: str, shard: int, name: str, since: str) -> dict[str, str]:
        """Return the index attributes of an item: `shard` is that of its node in the cluster, `since` its time."""
        number = shard_of(cluster, len(NUMBERS)) + USED_BY_SHARD * shard + shard_of(name, USED_BY_SHARD)
        return {"gsi4pk": self.partition(number % len(NUMBERS)), "gsi4sk": since}

    def partition(self, number: int) -> str:
        """Return the index partition with a number."""
        return f"{self.value}#{number}"

    def partitions(self, numbers: Iterable[int] = NUMBERS) -> Iterator[str]:
        """Yield the index partitions with these numbers; without numbers, all of them."""
        return map(self.partition, numbers)


def used_numbers(cluster: str, shards: int) -> Iterator[int]:
    """Yield the numbers of the partitions that a cluster with this number of shards uses."""
    first = shard_of(cluster, len(NUMBERS))
    return ((first + used) % len(NUMBERS) for used in range(min(USED_BY_SHARD * shards, len(NUMBERS))))
