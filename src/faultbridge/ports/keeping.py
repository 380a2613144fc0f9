"""What is kept, and when: the clock, the one table, the objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from faultbridge.storage.writes import Index, Item, Key, Page, Write


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, UTC."""
        ...


class Table(Protocol):
    """The one table: consistent reads by key and conditional writes, all or nothing."""

    def get(self, key: Key) -> Item | None:
        """Read one item, consistently."""
        ...

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read any number of items, consistently; missing ones are not in the answer."""
        ...

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        upto: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Read items of one partition in sort-key order, of the table (consistently) or of an index (eventually).

        `prefix`, `after` (exclusive) and `upto` (inclusive) bound the sort key together; `start` is an earlier
        page's `next`. A page without `next` is the last one; one with it may be followed by an empty one.
        """
        ...

    def write(self, write: Write) -> None:
        """Make one conditional write; raises Conflict when its condition does not hold."""
        ...

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make up to 100 writes, all or nothing; raises Conflict when a condition fails or another writer interferes.

        The same token with the same writes within ten minutes is answered like the first time.
        """
        ...


class ObjectStore(Protocol):
    """Raw records and evidence, kept under the hash of their content."""

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; the same key again is the same content again."""
        ...

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None where nothing is kept."""
        ...
