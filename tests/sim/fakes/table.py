"""A fake of the DynamoDB table: conditional writes, transactions, lagging indexes and a stream."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypeVar

from msgspec import Struct

from faultbridge.adapters.aws.dynamodb import to_typed_item
from faultbridge.model.errors import Conflict, Misconfigured
from faultbridge.model.storage.writes import INDEXES, Index, Item, Key, Page, Write
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.clock import ManualClock
from tests.sim.fakes.item_size import check_sizes
from tests.sim.fakes.seam import Seam
from tests.sim.fakes.stored_values import StoredMapping
from tests.sim.fakes.table_rules import applied, holds

T = TypeVar("T")
TOKEN_LIFETIME = timedelta(minutes=10)
MAX_TRANSACTION_WRITES = 100

# The non-key attributes of the template's INCLUDE projection; the other indexes are KEYS_ONLY.
PROJECTED = frozenset(
    {
        "body", "hash", "type", "severity", "case_id", "device", "recorded_at", "cluster", "node", "sequence",
        "epoch", "status", "opened", "closed", "resolution", "waiting_for",
    }
)  # fmt: skip


class StreamRecord(Struct, frozen=True):
    """One change of one item; all changes of one transaction have the same `transaction` number."""

    event: str
    key: Key
    new: Item | None
    old: Item | None
    transaction: int
    at: datetime

    def as_lambda_record(self) -> dict[str, Any]:
        """Convert the change to a stream record as Lambda receives it, with the new image of the item."""
        keys = to_typed_item({"pk": self.key.pk, "sk": self.key.sk})
        image = {} if self.new is None else {"NewImage": to_typed_item(self.new)}
        return {
            "eventID": f"{self.transaction}:{self.key.pk}:{self.key.sk}",
            "eventName": self.event,
            "eventSource": "aws:dynamodb",
            "dynamodb": {"Keys": keys, "SequenceNumber": f"{self.transaction:021d}", **image},
        }


@dataclass(frozen=True)
class TableBackup:
    """The items of a table at one time, with what the fake needs for its indexes."""

    partitions: Mapping[str, Mapping[str, Item]]
    versions: Mapping[Key, Sequence[tuple[datetime, Item | None]]]
    index_members: Mapping[tuple[str, str], Iterable[Key]]


class SortedKeys(dict[str, T]):
    """The items of one partition by their sort keys, or all partitions by their names.

    `order` has the sorted keys. It is None after a key was added or removed, until the keys are read again.
    """

    order: list[str] | None = None

    def between(self, prefix: str, after: str | None = None, up_to: str | None = None) -> list[str]:
        """Return the keys with a prefix, above `after` (exclusive) and up to `up_to` (inclusive), in their order."""
        if self.order is None:
            self.order = sorted(self)
        low, high = 0, len(self.order)
        if prefix:
            low, high = bisect_left(self.order, prefix), bisect_left(self.order, prefix + _LAST_CHARACTER)
        if after is not None:
            low = max(low, bisect_right(self.order, after))
        if up_to is not None:
            high = min(high, bisect_right(self.order, up_to))
        return self.order[low:high]


class FakeTable:
    """Implements `Table` (fake): `index_lag` delays the indexes, `page_size` limits every page of a query.

    Reads are consistent by default. Queries of an index, and reads with `consistent=False`, return data as old as
    `index_lag`. Items and transactions above DynamoDB's size limits are refused. `stream` lists every change in the
    order of the writes. Reads return read-only items, not copies: a copy of each took a third of a test's time.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seam: Seam | None = None,
        index_lag: timedelta = timedelta(0),
        page_size: int | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.index_lag = index_lag
        self.page_size = page_size
        self.stream: list[StreamRecord] = []
        self._partitions: SortedKeys[SortedKeys[Item]] = SortedKeys()
        self._versions: dict[Key, list[tuple[datetime, Item | None]]] = {}
        self._index_members: dict[tuple[str, str], set[Key]] = {}
        self._tokens: dict[str, tuple[datetime, tuple[Write, ...]]] = {}
        self._transactions = 0

    def get(self, key: Key) -> Item | None:
        """Return the item at a key; None if it does not exist."""
        with self.seam.around("table", "get", key):
            return self._at(key)

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return the items that exist at the keys; without `consistent`, their versions of `index_lag` ago."""
        wanted, version = list(dict.fromkeys(keys)), self._at if consistent else self._visible
        with self.seam.around("table", "get_many" if consistent else "get_many_lagging", wanted):
            stored = wanted if not consistent else [key for key in wanted if key.pk in self._partitions]
            return {key: item for key in stored if (item := version(key)) is not None}

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
        """Return one page of a partition of the table or of an index, as `ports.Table.query` specifies."""
        with self.seam.around("table", "query", (pk, index)):
            bounded: list[tuple[tuple[str, ...], Item]]
            if index is None:
                partition = self._partitions.get(pk, _EMPTY_PARTITION)
                bounded = [((sk,), partition[sk]) for sk in partition.between(prefix, after, up_to)]
            else:
                bounded = [
                    row
                    for row in self._members(pk, index)
                    if (not prefix or row[0][0].startswith(prefix))
                    and (after is None or row[0][0] > after)
                    and (up_to is None or row[0][0] <= up_to)
                ]
            if not bounded:
                return _EMPTY_PAGE
            if start is not None:
                last = tuple(start.split("\x1f"))
                bounded = [row for row in bounded if (row[0] < last if newest_first else row[0] > last)]
            if newest_first or index is not None:
                bounded.sort(key=itemgetter(0), reverse=newest_first)
            return self._page(bounded, limit, index)

    def write(self, write: Write) -> None:
        """Perform one conditional write; a failed condition raises `Conflict`."""
        with self.seam.around("table", "write", write):
            self._commit([write])

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Perform all writes or no write; within ten minutes, a second call with the same token does nothing."""
        if not writes:
            return
        if len(writes) > MAX_TRANSACTION_WRITES or len({write.key for write in writes}) < len(writes):
            raise ValueError(
                f"invalid transaction: {len(writes)} writes; at most {MAX_TRANSACTION_WRITES}, one per item"
            )
        with self.seam.around("table", "transact", tuple(writes)):
            if token is None or not self._was_committed(token, tuple(writes)):
                self._commit(writes)
                if token is not None:
                    self._tokens[token] = (self.clock.now(), tuple(writes))

    def backup(self) -> TableBackup:
        """Return the stored items, for a later `restore`; indexes and their lag are part of it."""
        return TableBackup(
            {pk: dict(partition) for pk, partition in self._partitions.items()},
            {key: list(versions) for key, versions in self._versions.items()},
            {name: set(members) for name, members in self._index_members.items()},
        )

    def restore(self, backup: TableBackup) -> None:
        """Replace all items by those of a backup. As on AWS, the stream shows none of these changes."""
        self._partitions = SortedKeys({pk: SortedKeys(items) for pk, items in backup.partitions.items()})
        self._versions = {key: list(versions) for key, versions in backup.versions.items()}
        self._index_members = {name: set(members) for name, members in backup.index_members.items()}
        self._tokens.clear()

    def items(self) -> Iterator[Item]:
        """Yield every stored item in the order of the keys, without a copy; callers must not modify items."""
        for pk in self._partitions.between(""):
            for sk in self._partitions[pk].between(""):
                yield self._partitions[pk][sk]

    def items_at(self, prefix: str, sk: str) -> Iterator[Item]:
        """Yield the item with sort key `sk` of each partition whose key starts with `prefix`.

        The items are not copied; callers must not modify them.
        """
        for pk in self._partitions.between(prefix):
            if (item := self._partitions[pk].get(sk)) is not None:
                yield item

    def _at(self, key: Key) -> Item | None:
        partition = self._partitions.get(key.pk)
        return None if partition is None else partition.get(key.sk)

    def _was_committed(self, token: str, writes: tuple[Write, ...]) -> bool:
        known = self._tokens.get(token)
        if known is None or self.clock.now() - known[0] > TOKEN_LIFETIME:
            return False
        if known[1] != writes:
            raise Misconfigured(f"the transaction token was used for other writes: {token}")
        return True

    def _commit(self, writes: Sequence[Write]) -> None:
        keys = [write.key for write in writes]
        olds = [self._at(key) for key in keys]
        if not all(holds(write.when, old) for write, old in zip(writes, olds, strict=True)):
            raise Conflict("a condition does not hold")
        news = [applied(write, old) for write, old in zip(writes, olds, strict=True)]
        changed = [one for one in zip(keys, news, olds, strict=True) if one[1] != one[2]]
        check_sizes(changed)
        self._transactions += 1
        for key, new, old in changed:
            self._store(key, old, new)

    def _store(self, key: Key, old: Item | None, new: Item | None) -> None:
        """Store a changed item, keep its earlier versions for lagging indexes, and add a stream record."""
        now = self.clock.now()
        partition = self._partitions.get(key.pk)
        if partition is None:
            partition = self._partitions[key.pk] = SortedKeys()
            self._partitions.order = None
        if old is None or new is None:
            partition.order = None
        if new is None:
            del partition[key.sk]
        else:
            partition[key.sk] = new
            for index in INDEXES:
                if index.pk in new:
                    self._index_members.setdefault((index.name, str(new[index.pk])), set()).add(key)
        versions = self._versions.setdefault(key, [(_BEGINNING, None)])
        while len(versions) > 1 and versions[1][0] <= now - self.index_lag:
            del versions[0]
        versions.append((now, new))
        event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        self.stream.append(StreamRecord(event, key, new, old, self._transactions, now))

    def _visible(self, key: Key) -> Item | None:
        horizon = self.clock.now() - self.index_lag
        versions = self._versions.get(key, _NEVER_STORED)
        if versions[-1][0] <= horizon:
            return versions[-1][1]
        return next((item for at, item in reversed(versions) if at <= horizon), versions[0][1])

    def _members(self, pk: str, index: Index) -> Iterator[tuple[tuple[str, ...], Item]]:
        """Yield the items of a partition of an index, each with the keys that sort it."""
        members = self._index_members.get((index.name, pk), set())
        for key in tuple(members):
            image = self._visible(key)
            if image is not None and image.get(index.pk) == pk and index.sk in image:
                yield (str(image[index.sk]), key.pk, key.sk), image
            elif (self._versions[key][-1][1] or {}).get(index.pk) != pk:
                members.discard(key)  # no visible version is in the index any more

    def _page(self, rows: Sequence[tuple[tuple[str, ...], Item]], limit: int | None, index: Index | None) -> Page:
        sizes = [size for size in (limit, self.page_size) if size is not None]
        size = min(sizes, default=len(rows))
        returned = rows[:size]
        more = "\x1f".join(returned[-1][0]) if len(rows) > size and returned else None
        if index is not None:
            returned = [(position, projected(item, index)) for position, item in returned]
        return Page(tuple(item for _, item in returned), more)


_EMPTY_PAGE = Page((), None)
_EMPTY_PARTITION: SortedKeys[Item] = SortedKeys()
_LAST_CHARACTER = chr(0x10FFFF)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_NEVER_STORED: list[tuple[datetime, Item | None]] = [(_BEGINNING, None)]


def projected(item: Mapping[str, Any], index: Index) -> Item:
    """Return the part of an item that the index contains; readers of a stored item share it."""
    if isinstance(item, StoredMapping) and index.name in item.projections:
        return item.projections[index.name]
    keys = {"pk", "sk", index.pk, index.sk}
    wanted = keys if index.keys_only else keys | PROJECTED
    found = StoredMapping({name: value for name, value in item.items() if name in wanted})
    if isinstance(item, StoredMapping):
        item.projections = {**item.projections, index.name: found}
    return found
