"""Remind: each minute, summaries of what had no page of its own, and reminders of what nobody has ended for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from faultbridge.ledger.queries import query_all
from faultbridge.pager.notification_log import Marks
from faultbridge.pager.open_pages import LivePage, LivePages
from faultbridge.pager.page import Page, PagerSettings
from faultbridge.pager.service_formats import message_of
from faultbridge.pager.summary import MAX_NAMED, ended, summarize
from faultbridge.ports import Clock, Pager, PageUrgency, Table
from faultbridge.storage import keys

BETWEEN_SUMMARIES = timedelta(minutes=5)


@dataclass(slots=True)
class Reminded:
    """What one round sent, and how many keys are live after it."""

    summaries: int = 0
    reminders: int = 0
    live: int = 0


@dataclass(frozen=True, slots=True)
class Remind:
    """Runs each minute; what a round that was cut short left undone the next one does, under the same keys."""

    table: Table
    pager: Pager
    clock: Clock
    settings: PagerSettings = field(default_factory=PagerSettings)

    def __call__(self) -> Reminded:
        """Look at every cluster's live pages; raises Transient when table or pager do not answer."""
        done = Reminded()
        for row in query_all(self.table, keys.CLUSTERS):
            for urgency in PageUrgency:
                self._look_at(str(row["sk"]), urgency, done)
        return done

    @property
    def _live(self) -> LivePages:
        return LivePages(self.table, self.clock, self.settings.max_per_hour)

    def _look_at(self, cluster: str, urgency: PageUrgency, done: Reminded) -> None:
        pages = list(self._live.of(cluster, urgency))
        done.live += len(pages)
        done.summaries += self._summarise(cluster, urgency, [one for one in pages if not one.own])
        if urgency is PageUrgency.URGENT:
            done.reminders += sum(self._remind(one) for one in pages if one.own)

    def _remind(self, one: LivePage) -> bool:
        now = self.clock.now()
        if one.told_at is None or now - one.told_at < self.settings.remind_after:
            return False
        if Marks(self.table, self.clock).is_over(one.page.key):
            # Its end was told and could not be noted.
            self.table.write(self._live.ends(one.page))
            return False
        if not self._live.admits(one.page):
            return False
        note = f"Reminder {one.times}: nobody has ended this since {one.page.at:%Y-%m-%dT%H:%MZ}."
        self.pager.send(message_of(replace(one.page, note=note)))
        self._live.told(replace(one, told_at=now, times=one.times + 1))
        return True

    def _summarise(self, cluster: str, urgency: PageUrgency, members: Sequence[LivePage]) -> bool:
        before = self._live.summary(cluster, urgency)
        if not members:
            return before is not None and self._end(before.page)
        now, untold = self.clock.now(), [one for one in members if one.told_at is None]
        pause = BETWEEN_SUMMARIES if untold else self.settings.remind_after
        if before is not None and before.told_at is not None and now - before.told_at < pause:
            return False
        named = sorted(untold or members, key=lambda one: one.page.at)[:MAX_NAMED]
        page = summarize(cluster, urgency, named, len(members), now, self.settings.links)
        self.pager.send(message_of(page))
        self._live.summarized(cluster, urgency, LivePage(page, told_at=now))
        for one in named:
            self._live.told(replace(one, told_at=now, times=one.times + 1))
        return True

    def _end(self, summary: Page) -> bool:
        self.pager.send(message_of(ended(summary, self.clock.now())))
        self._live.summarized(summary.place.cluster, summary.urgency, None)
        return True
