"""Follow: a timeline as it grows, each entry once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from faultbridge.ports import Clock
from faultbridge.services.timeline import Line, Timeline, Wanted

OVERLAP = timedelta(seconds=30)
"""An index shows an entry later than the table has it, so the end of the window is read again each time."""


def follow(timeline: Timeline, wanted: Wanted, clock: Clock, wait: Callable[[], bool]) -> Iterator[Line]:
    """Yield what is there, then what comes; `wait` pauses between looks, and after its no one last look follows."""
    known: set[str] = set()
    going = True
    while True:
        looked_at = clock.now()
        window: set[str] = set()
        for line in timeline.entries(wanted):
            window.add(line.hash)
            if line.hash not in known:
                yield line
        known = window
        start = looked_at - OVERLAP
        wanted = replace(wanted, since=max(start, wanted.since) if wanted.since else start)
        if not going:
            return
        going = wait()
