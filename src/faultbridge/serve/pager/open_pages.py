"""Open pages: stores the pages that are triggered and not resolved, and applies the hourly page limit.

Pages above the limit of a clock hour are withheld, and summaries list them instead. When no withheld page of a cluster
and urgency is left, the summary is resolved.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.cluster.silences import Subject
from faultbridge.model.errors import Conflict
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Delete, Equals, Item, Key, Put, Update, Write
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_milliseconds
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.serve.pager.page import Page

COUNTER_TTL = timedelta(hours=2)
MAX_TRIES = 5


class OpenPage(Stored, frozen=True):
    """A page that is triggered and not resolved.

    - `individual` is True if the page was sent as a message of its own. False means that the page is postponed, or that
      only summaries list the page.
    - `possibly_sent` is True if an earlier try to send the page was interrupted, so that a recipient may have it. The
      page that resolves this page is then sent in any case, even if only summaries list this page.
    - `postponed` is True if the page waits for the end of the maintenance of its cluster.
    - `silenced` is the id of the silence that holds the page, or None. `subject` is what the matchers of silences see.
    - `acknowledged_until` is the end of the last acknowledgement of which the recipients of the page were informed.
    - `last_sent_at` and `sent_count` are the last time and the number of times that the page was sent, in a message of
      its own or in a summary.
    - `failed_at` is the time at which a wrong setting prevented the last reminder; None if no setting prevented it.
    """

    page: Page
    individual: bool = True
    possibly_sent: bool = False
    postponed: bool = False
    last_sent_at: datetime | None = None
    sent_count: int = 0
    failed_at: datetime | None = None
    silenced: str | None = None
    subject: Subject = Subject()
    acknowledged_until: datetime | None = None


class OpenPages(Struct, frozen=True):
    """Reads and writes the open pages of clusters, with consistent reads.

    The pages of one cluster and one urgency share a partition.
    """

    table: Table
    clock: Clock
    max_per_hour: int

    def admit(self, page: Page) -> bool:
        """Count a page against the hourly limit. Returns False if the limit is reached.

        Pages about a whole cluster are not limited. After five conflicts with other writers, the page is permitted
        without being counted.
        """
        if page.location.node is None:
            return True
        now = self.clock.now()
        counter = keys.page_count(page.location.cluster, page.urgency, now)
        expires_at = to_milliseconds(now + COUNTER_TTL) // 1000
        below_limit = AnyOf((Absent(), Below("sent", self.max_per_hour)))
        for _ in range(MAX_TRIES):
            try:
                self.table.write(Update(counter, set={("expires_at",): expires_at}, add={"sent": 1}, when=below_limit))
            except Conflict:
                if self._is_full(counter):
                    return False
            else:
                return True
        log_cause("page not counted", reason="too many concurrent writers of the hourly counter", page_key=page.key)
        # One page too many is better than a missing page.
        return True

    def _is_full(self, counter: Key) -> bool:
        found = self.table.get(counter)
        return found is not None and int(str(found["sent"])) >= self.max_per_hour

    def read_all(self, cluster: str, urgency: PageUrgency) -> tuple[list[OpenPage], OpenPage | None]:
        """Return all open pages of a cluster and urgency, and their open summary (None without a summary)."""
        rows = query_all(self.table, keys.pages(cluster, urgency), after=keys.LIVE_PAGE)
        found = {str(row["sk"]): _read(row) for row in rows}
        summary = found.pop(keys.summary_page(cluster, urgency).sk, None)
        return list(found.values()), summary

    def read(self, page: Page) -> OpenPage | None:
        """Return the open page with the key of `page`, or None if no such page is open."""
        found = self.table.get(_key(page))
        return None if found is None else _read(found)

    def put(self, opened: OpenPage) -> Write:
        """Return the write that stores an open page."""
        return Put(self._row(opened))

    def forget(self, opened: OpenPage) -> None:
        """Remove a page whose resolve was sent; keep it if another event triggered it again."""
        try:
            self.table.write(Delete(_key(opened.page), when=AnyOf((Absent(), _same_event(opened.page)))))
        except Conflict:
            log_cause("open page not deleted", reason="triggered again", page_key=opened.page.key)

    def delete(self, page: Page, *, if_unsent: bool = False) -> Write:
        """Return the write that removes a page from the open pages.

        With `if_unsent`, the write fails with Conflict if the page was, or may have been, sent as a message of its own.
        """
        unsent = AnyOf((Absent(), Equals("sent", 0)))
        return Delete(_key(page), when=unsent if if_unsent else None)

    def update(self, opened: OpenPage) -> bool:
        """Store an open page that changed.

        Returns False, and stores nothing, if the page is no longer open, or was triggered again by another event.
        """
        try:
            self.table.write(Put(self._row(opened), when=_same_event(opened.page)))
        except Conflict:
            log_cause("open page not updated", reason="resolved or triggered again", page_key=opened.page.key)
            return False
        return True

    def refresh(self, page: Page) -> None:
        """Store the text of a notice in the urgent page with the same key, so that its reminders are up to date."""
        opened = self.read(replace(page, urgency=PageUrgency.URGENT))
        if opened is not None:
            before = opened.page
            names = ("headline", "fault", "what", "system_action", "action_required")
            self.update(replace(opened, page=replace(before, **{name: getattr(page, name) for name in names})))

    def set_summary(self, cluster: str, urgency: PageUrgency, summary: OpenPage | None) -> None:
        """Store the open summary of a cluster and urgency, or delete it if `summary` is None.

        The summary is the page that lists the withheld pages, which were above the hourly limit.
        """
        key = keys.summary_page(cluster, urgency)
        write = Delete(key) if summary is None else Put(items.item(key, self.clock.now(), {"live": dump(summary)}))
        self.table.write(write)

    def _row(self, opened: OpenPage) -> Item:
        page = opened.page
        sent = int(opened.individual or opened.possibly_sent)
        return items.item(_key(page), self.clock.now(), {"live": dump(opened), "sent": sent, "event_id": page.event_id})


def _key(page: Page) -> Key:
    return keys.live_page(page.location.cluster, page.urgency, page.key)


def _same_event(page: Page) -> Equals:
    return Equals("event_id", page.event_id)


def _read(row: Item) -> OpenPage:
    return items.stored_value(OpenPage, row, "live")
