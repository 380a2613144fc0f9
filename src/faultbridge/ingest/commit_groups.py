"""Together: many nodes' commits in few transactions, those that would be a transaction of their own anyway.

Each keeps its own conditions. Where one of them does not hold, all are made one by one, each on its own version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from faultbridge.ingest.node_batch import ReviseByChunk
from faultbridge.ledger.append import Appended
from faultbridge.storage.writes import Key, Write

MAX_WRITES = 100
MAX_ENTRIES = 60
"""Of at most 60 KB: so many stay below the 4 MB of a transaction."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a chunk of records makes of a node, and the writes that are still to be made."""

    revising: ReviseByChunk
    appended: Appended
    writes: tuple[Write, ...]


def together(drafted: Iterable[Drafted]) -> Iterator[list[Drafted]]:
    """Put drafts into groups that one transaction takes, no two with a write to the same item.

    A draft of one write stays alone: in a transaction it would cost twice.
    """
    group: list[Drafted] = []
    places: set[Key] = set()
    entries = 0
    for one in drafted:
        if len(one.writes) < 2:  # noqa: PLR2004 - what makes a transaction
            yield [one]
            continue
        own = {write.key for write in one.writes}
        entries += len(one.appended.entries)
        if group and (len(places) + len(own) > MAX_WRITES or entries > MAX_ENTRIES or not places.isdisjoint(own)):
            yield group
            group, places, entries = [], set(), len(one.appended.entries)
        group.append(one)
        places |= own
    if group:
        yield group
