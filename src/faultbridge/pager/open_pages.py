"""Live: which keys of a cluster are triggered and not resolved, and how many pages a clock hour may have.

Cases beyond the limit have no page of their own; a summary speaks for them until the last of them has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.ledger.queries import query_all
from faultbridge.pager.page import Page
from faultbridge.ports import Clock, PageUrgency, Table
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump, load
from faultbridge.storage.writes import Absent, AnyOf, Below, Delete, Item, Key, Present, Put, Update, Write

TALLY_KEPT = timedelta(hours=2)
MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page as it was triggered; `own` unless only summaries speak for it, `told_at` None until one did.

    One that was cut short before summaries spoke for it is `maybe_told` by itself, and has an end of its own.
    """

    page: Page
    own: bool = True
    maybe_told: bool = False
    told_at: datetime | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class LivePages:
    """Reads and writes them; the rows of a cluster and urgency stand together, and are read consistently."""

    table: Table
    clock: Clock
    max_per_hour: int

    def admits(self, page: Page) -> bool:
        """Take one of the hour's pages; False when all are taken. What is about the whole cluster is never limited."""
        if page.place.node is None:
            return True
        now = self.clock.now()
        place = keys.page_tally(page.place.cluster, page.urgency, now)
        gone = to_milliseconds(now + TALLY_KEPT) // 1000
        room = AnyOf((Absent(), Below("sent", self.max_per_hour)))
        for _ in range(MAX_TRIES):
            try:
                self.table.write(Update(place, set={("expires_at",): gone}, add={"sent": 1}, when=room))
            except Conflict:
                if self._is_full(place):
                    return False
            else:
                return True
        # Many hands on one tally at once: rather one page too many than none.
        return True

    def _is_full(self, place: Key) -> bool:
        tally = self.table.get(place)
        return tally is not None and int(str(tally["sent"])) >= self.max_per_hour

    def of(self, cluster: str, urgency: PageUrgency) -> Iterator[LivePage]:
        """Read every live page."""
        rows = query_all(self.table, keys.pages(cluster, urgency), prefix=keys.LIVE_PAGE)
        return (_read(row) for row in rows)

    def read(self, page: Page) -> LivePage | None:
        """Read how the trouble of a page was triggered; None when it is not live."""
        found = self.table.get(keys.live_page(page.place.cluster, page.urgency, page.key))
        return None if found is None else _read(found)

    def begins(self, live: LivePage) -> Write:
        """Return the write that makes a page live."""
        return Put(self._row(live))

    def ends(self, page: Page) -> Write:
        """Return the write that ends it."""
        return Delete(keys.live_page(page.place.cluster, page.urgency, page.key))

    def told(self, live: LivePage) -> None:
        """Note when a live page was told; nothing where it has ended meanwhile."""
        try:
            self.table.write(Put(self._row(live), when=Present()))
        except Conflict:
            return

    def summary(self, cluster: str, urgency: PageUrgency) -> LivePage | None:
        """Read the summary that is live, if one is."""
        found = self.table.get(keys.summary_page(cluster, urgency))
        return None if found is None else _read(found)

    def summarized(self, cluster: str, urgency: PageUrgency, live: LivePage | None) -> None:
        """Note that a summary is live, or with None that it has ended."""
        place = keys.summary_page(cluster, urgency)
        write = Delete(place) if live is None else Put(items.item(place, self.clock.now(), {"live": dump(live)}))
        self.table.write(write)

    def _row(self, live: LivePage) -> Item:
        page = live.page
        place = keys.live_page(page.place.cluster, page.urgency, page.key)
        return items.item(place, self.clock.now(), {"live": dump(live)})


def _read(row: Mapping[str, Any]) -> LivePage:
    return load(LivePage, row["live"])
