"""Stream windows: the newest entries of one stream within a span of time, at a cost that its length does not change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from faultbridge.domain.nodes import Head
from faultbridge.domain.times import to_text
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.writes import Item

SKEW = timedelta(minutes=5)
"""Largest difference between the clocks of two writers. Entries of one stream may be out of time order by this much."""

Span = tuple[datetime | None, datetime | None]
"""The begin, inclusive, and the end, exclusive, of a window; None is without a limit."""


def newest_in_window(table: Table, pk: str, head: Head, window: Span, limit: int) -> tuple[tuple[Item, ...], bool]:
    """Return the newest entry items of a stream that were recorded in a window, oldest first, and whether it has more.

    Both ends of the window are found by binary search over the sequence numbers.
    """
    since, until = window
    after = last_before(table, pk, head, since - SKEW) if since else None
    up_to = last_before(table, pk, head, until + SKEW) if until else None
    if until and up_to is None:
        return (), False
    found = query_all(table, pk, prefix=keys.ENTRY, after=after, up_to=up_to, page_size=limit + 1, newest_first=True)
    newest = tuple(islice(_within(found, window), limit + 1))
    return newest[:limit][::-1], len(newest) > limit


def _within(found: Iterator[Item], window: Span) -> Iterator[Item]:
    since, until = (to_text(one) if one else None for one in window)
    for item in found:
        recorded = str(item["recorded_at"])
        if (since is None or recorded >= since) and (until is None or recorded < until):
            yield item


def last_before(table: Table, pk: str, head: Head, since: datetime) -> str | None:
    """Return the sort key of the last entry before an instant, by binary search over the sequence numbers."""
    low, high, instant = 0, head.sequence, to_text(since)
    while low < high:
        middle = (low + high + 1) // 2
        found = table.get(keys.entry(pk, head.epoch, middle))
        if found is None or str(found["recorded_at"]) < instant:
            low = middle
        else:
            high = middle - 1
    return keys.entry(pk, head.epoch, low).sk if low else None
