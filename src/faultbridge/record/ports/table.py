"""Ports for the clock and the one DynamoDB table: reads, conditional writes and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from faultbridge.model.cluster.config import ProviderRole
from faultbridge.model.errors import Transient
from faultbridge.model.storage.writes import Index, Item, Key, Page, Write


class Clock(Protocol):
    """The source of the current time, replaceable in tests."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""


class UnprocessedKeys(Transient):
    """Raised when a read of many items read only some of them.

    `found` has the items that were read. `unread` has the keys that were not read; their items may exist.
    """

    def __init__(self, text: str, found: Mapping[Key, Item], unread: Iterable[Key]) -> None:
        """Create the error with the items that were read (`found`) and the unread keys (`unread`)."""
        super().__init__(text)
        self.found, self.unread = dict(found), frozenset(unread)


class Table(Protocol):
    """The one DynamoDB table: reads by key, conditional writes, and all-or-nothing transactions."""

    def get(self, key: Key) -> Item | None:
        """Return one item by a consistent read, or None if it does not exist."""

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return any number of items, by default with consistent reads. Missing items are not included.

        A read that is not consistent costs half. It may return an older version of an item, or not find a new item.

        If DynamoDB throttled the read and left keys unread after all tries, UnprocessedKeys is raised, which has the
        items that were read.
        """

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
        """Return one page of a partition in the order of the sort key; `newest_first` reverses the order.

        A read of the table is consistent; a read of an index is eventually consistent. `prefix`, `after` (exclusive)
        and `up_to` (inclusive) together limit the sort key. `start` is the `next` of an earlier page. A page without
        `next` is the last one. A page with `next` may be followed by an empty page.
        """

    def write(self, write: Write) -> None:
        """Make one conditional write; raises Conflict if its condition is false.

        It also raises Conflict if a transaction changes the item at the same time.
        """

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make up to 100 writes, all or none; raises Conflict if a condition is false.

        It also raises Conflict if another write changes one of the items at the same time. Raises ValueError for more
        than 100 writes, or for two writes to one item. `token` makes the call idempotent: within ten minutes the same
        token with the same writes succeeds again and changes nothing.
        """


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What Faultbridge passes to the function with which an extension builds its adapter.

    An extension is another Python package, whose entry point names this function. The extension reads its own settings
    from the environment. `role` is the IAM role for a cluster in another AWS account, or None for a cluster in the
    account of the stack.
    """

    clock: Clock
    role: ProviderRole | None = None
