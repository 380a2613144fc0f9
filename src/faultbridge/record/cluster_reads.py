"""Cluster reads: shares reads of a cluster's configuration, controls and work rows among services.

While `ClusterReads.once` runs, services share the reads of some items of the cluster (`_shared`), such as its
configuration, and of its work rows, such as queued cases:

- Shared items and rows are at most five seconds old.
- After a write of a shared item, the next read of this item reads all shared items again and discards the rows.
- After a write of a row, the next query reads the rows of its shard again.
- Rows are always read after the items, so no row is older than an item.
- A service makes the write of its decision conditional on the version of the item that it read, or calls `forget`
  before it decides. Otherwise, the decision could be based on an item that has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from faultbridge.model.storage import keys
from faultbridge.model.storage.projections import WORK_ROWS, WORK_ROWS_END
from faultbridge.model.storage.writes import Index, Item, Key, Page, Write
from faultbridge.record.queries import query_all

if TYPE_CHECKING:
    from faultbridge.record.ports.table import Clock, Table

MAX_AGE = timedelta(seconds=5)


class _Held(Struct):
    """What was read of one cluster, usable `until` a time; `rows` are those of each shard, by their keys' prefix."""

    shared: frozenset[Key]
    shards: str
    until: datetime | None = None
    items: dict[Key, Item | None] = field(default_factory=dict)
    rows: dict[str, dict[str, Page]] = field(default_factory=dict)

    def forget(self) -> None:
        self.until, self.items = None, {}
        self.rows.clear()


class ClusterReads(Struct):
    """A `Table` that shares its reads of some items and rows in a context of `once`, for five seconds."""

    table: Table
    clock: Clock
    _held: _Held | None = None

    @contextmanager
    def once(self, cluster: str, *, policy: bool = True) -> Iterator[None]:
        """Share the reads of a cluster, with `policy` also of its policy and baselines, in this context.

        A context within another one makes its own reads; afterwards the outer one continues with its earlier reads.
        """
        outer, self._held = self._held, _Held(_shared(cluster, policy=policy), f"{keys.cluster_partition(cluster)}#")
        try:
            yield
        finally:
            self._held = outer

    def forget(self) -> None:
        """Discard what was read, before a decision whose write is not conditional on a version that was read."""
        if self._held is not None:
            self._held.forget()

    def get(self, key: Key) -> Item | None:
        """Return one table item, from the shared reads if possible, or None if it does not exist."""
        held = self._held
        if held is None or key not in held.shared:
            return self.table.get(key)
        now = self.clock.now()
        if held.until is None or now > held.until or key not in held.items:
            self._read(held, now)
        return held.items[key]

    def get_many(self, wanted: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return the wanted items that exist; within `once`, the items that it shares are read only once."""
        held, wanted = self._held, tuple(wanted)
        if held is None or not held.shared.issuperset(wanted):
            return self.table.get_many(wanted, consistent=consistent)
        now = self.clock.now()
        if held.until is None or now > held.until or not held.items.keys() >= set(wanted):
            self._read(held, now)
        return {key: item for key in wanted if (item := held.items[key]) is not None}

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
        """Return one page; within `once`, one query for waiting work reads all its kinds in the shard."""
        held = self._held
        is_part = after or up_to or limit or start or index or newest_first
        if held is None or is_part or prefix not in WORK_ROWS or not pk.startswith(held.shards):
            return self.table.query(
                pk,
                prefix=prefix,
                after=after,
                up_to=up_to,
                limit=limit,
                start=start,
                index=index,
                newest_first=newest_first,
            )
        return self._rows(held, pk, prefix)

    def write(self, write: Write) -> None:
        """Make one conditional write, and discard the shared items and rows that it may change."""
        self._drop((write,))
        self.table.write(write)

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make several writes, all or none, and discard the shared items and rows that they may change."""
        self._drop(writes)
        self.table.transact(writes, token)

    def _read(self, held: _Held, now: datetime) -> None:
        """Read the shared items of a cluster, because they are too old, or a write discarded a wanted one."""
        held.forget()
        found = self.table.get_many(sorted(held.shared))
        held.until, held.items = now + MAX_AGE, {key: found.get(key) for key in held.shared}

    def _rows(self, held: _Held, pk: str, prefix: str) -> Page:
        now = self.clock.now()
        if held.until is None or now > held.until:
            self._read(held, now)
        pages = held.rows.get(pk)
        if pages is None:
            pages = held.rows[pk] = {"": Page(tuple(query_all(self.table, pk, up_to=WORK_ROWS_END)))}
        if prefix not in pages:
            pages[prefix] = Page(tuple(row for row in pages[""].items if str(row["sk"]).startswith(prefix)))
        return pages[prefix]

    def _drop(self, writes: Sequence[Write]) -> None:
        """Discard the shared items and rows that these writes may change, even if the writes fail."""
        if (held := self._held) is None:
            return
        for write in writes:
            held.items.pop(write.key, None)
            held.rows.pop(write.key.pk, None)


@lru_cache(maxsize=8)
def _shared(cluster: str, *, policy: bool) -> frozenset[Key]:
    own = (
        keys.cluster_config(cluster),
        keys.cluster_control(cluster),
        keys.cluster_coverage(cluster),
        keys.cluster_state(cluster),
    )
    from faultbridge.model.storage import findings  # only services that decide read it

    decided_by = (findings.baselines_key(cluster, 0), keys.CURRENT_POLICY) if policy else ()
    return frozenset((*own, *decided_by))
