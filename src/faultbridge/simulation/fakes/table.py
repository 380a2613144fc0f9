"""The table in memory: conditions, transactions, lagging indexes, a stream; deterministic, and it breaks on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultbridge.adapters.dynamodb.values import to_typed_item
from faultbridge.errors import Conflict, Misconfigured
from faultbridge.ports import Clock
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam
from faultbridge.simulation.fakes.table_rules import applied, holds, read_item
from faultbridge.storage.writes import INDEXES, WORK, Index, Item, Key, Page, Write

TOKENS_LAST = timedelta(minutes=10)
WRITES_AT_ONCE = 100

# What the template's INCLUDE projection carries beside the keys; the fourth index carries keys only.
PROJECTED = frozenset(
    {
        "body", "hash", "type", "severity", "case_id", "device", "recorded_at", "cluster", "node", "sequence",
        "epoch", "status", "opened", "closed", "resolution", "waiting_for",
    }
)  # fmt: skip


@dataclass(frozen=True)
class StreamRecord:
    """One change of one item; `transaction` is the same number for all changes of one write."""

    event: str
    key: Key
    new: Item | None
    old: Item | None
    transaction: int
    at: datetime

    def as_lambda_record(self) -> dict[str, Any]:
        """Spell the change as a Lambda event source mapping does, with the new image."""
        keys = to_typed_item({"pk": self.key.pk, "sk": self.key.sk})
        image = {} if self.new is None else {"NewImage": to_typed_item(self.new)}
        return {
            "eventID": f"{self.transaction}:{self.key.pk}:{self.key.sk}",
            "eventName": self.event,
            "eventSource": "aws:dynamodb",
            "dynamodb": {"Keys": keys, "SequenceNumber": f"{self.transaction:021d}", **image},
        }


class FakeTable:
    """A Table (fake). `index_lag` delays what the indexes show; `page_size` cuts every query into small pages.

    Reads by key and of the base table are consistent. `stream` holds every change in the order of the writes.
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
        self._partitions: dict[str, dict[str, Item]] = {}
        self._versions: dict[Key, list[tuple[datetime, Item | None]]] = {}
        self._ever_in: dict[tuple[str, str], set[Key]] = {}
        self._tokens: dict[str, tuple[datetime, tuple[Write, ...]]] = {}
        self._transactions = 0

    def get(self, key: Key) -> Item | None:
        """Read it."""
        with self.seam.around("table", "get", key):
            item = self._at(key)
            return None if item is None else read_item(item)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read items."""
        wanted = list(dict.fromkeys(keys))
        with self.seam.around("table", "get_many", wanted):
            return {key: read_item(item) for key in wanted if (item := self._at(key)) is not None}

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
        """Read a page of a partition or index."""
        with self.seam.around("table", "query", (pk, index)):
            bounded = [
                (place, item)
                for place, item in self._rows(pk, index)
                if place[0].startswith(prefix)
                and (after is None or place[0] > after)
                and (up_to is None or place[0] <= up_to)
            ]
            if not bounded:
                return _EMPTY
            if start is not None:
                last = tuple(start.split("\x1f"))
                bounded = [row for row in bounded if (row[0] < last if newest_first else row[0] > last)]
            bounded.sort(key=_place, reverse=newest_first)
            return self._page(bounded, limit)

    def write(self, write: Write) -> None:
        """Make one conditional write."""
        with self.seam.around("table", "write", write):
            self._commit([write])

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make writes, all or nothing."""
        if not writes:
            return
        if len(writes) > WRITES_AT_ONCE or len({write.key for write in writes}) < len(writes):
            raise ValueError(f"{len(writes)} writes: too many at once, or two of the same item")
        with self.seam.around("table", "transact", tuple(writes)):
            if token is None or not self._answered(token, tuple(writes)):
                self._commit(writes)
                if token is not None:
                    self._tokens[token] = (self.clock.now(), tuple(writes))

    def items(self) -> Iterator[Item]:
        """Every item as it stands, in key order; for assertions, which change none (nor does a write)."""
        for pk in sorted(self._partitions):
            for sk in sorted(self._partitions[pk]):
                yield self._partitions[pk][sk]

    def _at(self, key: Key) -> Item | None:
        return self._partitions.get(key.pk, {}).get(key.sk)

    def _answered(self, token: str, writes: tuple[Write, ...]) -> bool:
        known = self._tokens.get(token)
        if known is None or self.clock.now() - known[0] > TOKENS_LAST:
            return False
        if known[1] != writes:
            raise Misconfigured(f"the token {token} was used for other writes")
        return True

    def _commit(self, writes: Sequence[Write]) -> None:
        olds = [self._at(write.key) for write in writes]
        if not all(holds(write.when, old) for write, old in zip(writes, olds, strict=True)):
            raise Conflict("a condition does not hold")
        news = [applied(write, old) for write, old in zip(writes, olds, strict=True)]
        self._transactions += 1
        for write, old, new in zip(writes, olds, news, strict=True):
            if new != old:
                self._store(write.key, old, new)

    def _store(self, key: Key, old: Item | None, new: Item | None) -> None:
        now = self.clock.now()
        partition = self._partitions.setdefault(key.pk, {})
        if new is None:
            del partition[key.sk]
        else:
            partition[key.sk] = new
            for index in INDEXES:
                if index.pk in new:
                    self._ever_in.setdefault((index.name, str(new[index.pk])), set()).add(key)
        versions = self._versions.setdefault(key, [(datetime.min.replace(tzinfo=now.tzinfo), None)])
        while len(versions) > 1 and versions[1][0] <= now - self.index_lag:
            del versions[0]
        versions.append((now, new))
        event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
        self.stream.append(StreamRecord(event, key, new, old, self._transactions, now))

    def _visible(self, key: Key) -> Item | None:
        horizon = self.clock.now() - self.index_lag
        versions = self._versions[key]
        return next((item for at, item in reversed(versions) if at <= horizon), versions[0][1])

    def _rows(self, pk: str, index: Index | None) -> Iterator[tuple[tuple[str, ...], Item]]:
        if index is None:
            for sk, item in self._partitions.get(pk, {}).items():
                yield (sk,), item
            return
        members = self._ever_in.get((index.name, pk), set())
        for key in tuple(members):
            image = self._visible(key)
            if image is not None and image.get(index.pk) == pk and index.sk in image:
                yield (str(image[index.sk]), key.pk, key.sk), projected(image, index)
            elif (self._versions[key][-1][1] or {}).get(index.pk) != pk:
                members.discard(key)  # it left, and everybody sees that it did

    def _page(self, rows: Sequence[tuple[tuple[str, ...], Item]], limit: int | None) -> Page:
        sizes = [size for size in (limit, self.page_size) if size is not None]
        size = min(sizes, default=len(rows))
        shown = rows[:size]
        more = "\x1f".join(shown[-1][0]) if len(rows) > size and shown else None
        return Page(tuple(read_item(item) for _, item in shown), more)


_EMPTY = Page((), None)


def _place(row: tuple[tuple[str, ...], Item]) -> tuple[str, ...]:
    return row[0]


def projected(item: Mapping[str, Any], index: Index) -> Item:
    """Return what an index shows of an item."""
    keys = {"pk", "sk", index.pk, index.sk}
    wanted = keys if index is WORK else keys | PROJECTED
    return {name: value for name, value in item.items() if name in wanted}
