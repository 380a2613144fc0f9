"""Follow: yields the matching entries of a timeline, then matching entries as they are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from faultbridge.ledger.timeline import Line, Timeline, TimelineQuery
from faultbridge.ports import Clock

OVERLAP = timedelta(seconds=30)
"""Length of the window that `follow` reads again, because an index shows an entry later than the table."""


def follow(timeline: Timeline, query: TimelineQuery, clock: Clock, wait: Callable[[], bool]) -> Iterator[Line]:
    """Yield the entries that match `query`, then matching entries as they are recorded.

    `wait` pauses between two reads. If it returns False, `follow` reads once more and ends.
    """
    yielded: set[str] = set()
    more = True
    while True:
        read_at = clock.now()
        window: set[str] = set()
        for line in timeline.entries(query):
            window.add(line.hash)
            if line.hash not in yielded:
                yield line
        yielded = window
        start = read_at - OVERLAP
        query = replace(query, since=max(start, query.since) if query.since else start)
        if not more:
            return
        more = wait()
