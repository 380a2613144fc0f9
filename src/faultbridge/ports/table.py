"""The clock and the single table: consistent reads by key, conditional writes and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from faultbridge.errors import Transient
from faultbridge.storage.writes import Index, Item, Key, Page, Write


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""


class UnprocessedKeys(Transient):
    """A read of many items read only some of them.

    `found` has the items that were read. `unread` has the keys that were not read; their items may exist.
    """

    def __init__(self, text: str, found: Mapping[Key, Item], unread: Iterable[Key]) -> None:
        """Store the items that were read (`found`) and the keys that were not read (`unread`)."""
        super().__init__(text)
        self.found, self.unread = dict(found), frozenset(unread)


class Table(Protocol):
    """The single table: consistent reads by key, conditional writes, and all-or-nothing transactions."""

    def get(self, key: Key) -> Item | None:
        """Return one item by a consistent read, or None when it does not exist."""

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return any number of items by consistent reads; items that do not exist are left out.

        A read that is not consistent costs half; it may return an older version of an item, or not find a new one.

        Raises UnprocessedKeys, which has the items that were read, if DynamoDB throttled the read and left keys unread
        after all tries.
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
        """Return one page of a partition in sort-key order.

        A read of the table is consistent; a read of an index is eventually consistent. `prefix`, `after` (exclusive)
        and `up_to` (inclusive) together limit the sort key. `start` is the `next` of an earlier page. A page without
        `next` is the last one. A page with `next` may be followed by an empty page.
        """

    def write(self, write: Write) -> None:
        """Make one conditional write; raises Conflict when its condition does not hold."""

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make up to 100 writes, all or none; raises Conflict when a condition does not hold.

        Raises Conflict also when another transaction writes the same items. `token` makes the call idempotent: within
        ten minutes the same token with the same writes succeeds again and changes nothing.
        """
