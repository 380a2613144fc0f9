"""Each minute, sends summaries of withheld pages, reminders of urgent pages, and postponed and silenced pages.

A page is withheld if it was above the hourly page limit. A page is postponed while its cluster is under maintenance,
and silenced while a silence holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.cluster.silences import Silence
from faultbridge.model.errors import Misconfigured
from faultbridge.model.log import Failures, log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import Pager, PageUrgency
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.serve.pager.open_pages import OpenPage, OpenPages
from faultbridge.serve.pager.page import Links, Location, Page, PagerSettings, PageState, SummaryMember
from faultbridge.serve.pager.page_deduplication import NotificationLog
from faultbridge.serve.pager.rules import NO_ACTION
from faultbridge.serve.pager.service_formats import message_of
from faultbridge.serve.pager.silenced import Silenced, line_page

SUMMARY_INTERVAL = timedelta(minutes=5)
RETRY_INTERVAL = timedelta(hours=1)
"""Pause after a wrong setting prevented a reminder; channels that accepted the reminder then receive it again."""

MAX_MEMBERS = 100
"""Pages listed in one summary: its bodies for all protocols stay far below the 256 KB limit of SNS."""

MAX_NODES_IN_TEXT = 10
MAX_NODE_LENGTH = 63


class Reminded(Struct):
    """Counts of one run: postponed pages sent (`sent`), summaries and reminders sent, open pages (`live`)."""

    sent: int = 0
    summaries: int = 0
    reminders: int = 0
    live: int = 0


class Remind(Struct, frozen=True):
    """Each minute, sends reminders of urgent pages, summaries of withheld pages, and postponed pages.

    A reminder repeats an urgent page that is not resolved. A page is withheld if it was above the hourly page limit,
    and postponed while its cluster is under maintenance. After an interrupted run, the next run sends the remaining
    pages under the same keys.
    """

    table: Table
    pager: Pager
    clock: Clock
    settings: PagerSettings = field(default_factory=PagerSettings)

    def remind(self) -> Reminded:
        """Send the pages, summaries and reminders that are due in every cluster, and return their numbers.

        If one page fails, or the pages of one cluster cannot be read, all other pages are still sent. The first error
        is then raised at the end.
        """
        counts, failures = Reminded(), Failures()
        for row in query_all(self.table, keys.CLUSTERS):
            cluster = str(row["sk"])
            with failures.collect(f"pages of {cluster}"):
                self._process_cluster(cluster, counts, failures)
        if failures.first_error is not None:
            raise failures.first_error
        return counts

    @property
    def _open_pages(self) -> OpenPages:
        return OpenPages(self.table, self.clock, self.settings.max_per_hour)

    @property
    def _silenced(self) -> Silenced:
        return Silenced(self.table, self.clock)

    def _process_cluster(self, cluster: str, counts: Reminded, failures: Failures) -> None:
        silences, held = self._silenced.active(cluster), []
        for urgency in PageUrgency:
            with failures.collect(f"{urgency.value} pages of {cluster}"):
                pages, summary = self._open_pages.read_all(cluster, urgency)
                counts.live += len(pages)
                held += [one for one in pages if one.silenced]
                self._process(cluster, urgency, pages, summary, silences, counts, failures)
        for over in self._silenced.over(cluster, silences):
            with failures.collect(f"the end of silence {over.id}"):
                still_open = sum(one.silenced == over.id for one in held)
                self.pager.send(message_of(line_page(cluster, over, still_open, self.clock.now(), self.settings.links)))
                self._silenced.forget(cluster, over)
        for one in held:
            with failures.collect(f"silenced page {one.page.key}"):
                counts.sent += self._send_silenced(one, silences)

    def _process(
        self,
        cluster: str,
        urgency: PageUrgency,
        pages: Sequence[OpenPage],
        summary: OpenPage | None,
        silences: Mapping[str, Silence],
        counts: Reminded,
        failures: Failures,
    ) -> None:
        postponed = [one for one in pages if one.postponed]
        if postponed and not self._is_maintained(cluster):
            for one in postponed:
                with failures.collect(f"postponed page {one.page.key}"):
                    counts.sent += self._send_postponed(one)
        withheld = [one for one in pages if not one.individual and not one.postponed and not one.silenced]
        if all(one.matchers for one in silences.values()):
            with failures.collect(f"{urgency.value} summary of {cluster}"):
                counts.summaries += self._summarize(cluster, urgency, withheld, summary)
        for one in pages if urgency is PageUrgency.URGENT else ():
            if one.individual:
                with failures.collect(f"reminder {one.page.key}"):
                    counts.reminders += self._remind(one, silences)

    def _is_maintained(self, cluster: str) -> bool:
        stored = self.table.get(keys.cluster_config(cluster))
        return stored is not None and items.read_config(stored).is_maintained(self.clock.now())

    def _send_silenced(self, opened: OpenPage, silences: Mapping[str, Silence]) -> bool:
        """Send a silenced page that no silence holds any more. Returns whether the page was sent.

        Above the hourly limit, the page is withheld instead, and the next summary lists it.
        """
        holding = self._silenced.holding(silences, opened.page, opened.subject)
        if holding is not None:
            if holding.id != opened.silenced:
                self._open_pages.update(replace(opened, silenced=holding.id))
            return False
        if not self._open_pages.admit(opened.page):
            self._open_pages.update(replace(opened, silenced=None))
            return False
        outgrown = opened.silenced in silences
        why = "the incident is larger than what is silenced" if outgrown else "sent after the end of a silence"
        return self._send_late(opened, why)

    def _send_postponed(self, opened: OpenPage) -> bool:
        """Send a postponed page after the maintenance of its cluster. Returns whether the page was sent."""
        return self._send_late(opened, "sent after the end of the cluster's maintenance")

    def _send_late(self, opened: OpenPage, why: str) -> bool:
        """Send a page that was held until now, with the reason. Returns whether the page was sent.

        Two kinds of pages are not sent:

        - A page whose resolve was sent, but not recorded. It is deleted from the open pages.
        - A page that an event resolves, and so deletes, before this function marks it as possibly sent.
        """
        if self._delete_resolved(opened):
            return False
        # Recorded before the page is sent, so that an event that resolves the page now sends its resolve.
        if not self._open_pages.update(replace(opened, possibly_sent=True)):
            return False
        page = opened.page
        note = f"As of {page.occurred_at:%Y-%m-%dT%H:%MZ}; {why}."
        self.pager.send(message_of(replace(page, note=note)))
        sent = replace(opened, individual=True, postponed=False, silenced=None, last_sent_at=self.clock.now())
        self._open_pages.update(replace(sent, sent_count=1))
        return True

    def _remind(self, opened: OpenPage, silences: Mapping[str, Silence]) -> bool:
        """Send an open page again if its reminder is due and the hourly limit permits it.

        A page about an acknowledged case, or one that a silence holds now, is not sent. Returns whether the page was
        sent. If a resolve of the page was already sent, the open page is deleted instead.

        - After a Transient error, the next run sends the reminder again.
        - After Misconfigured, the reminder is sent again when `RETRY_INTERVAL` has passed. Until then, each run raises
          Misconfigured, so that the failed event raises the alarm of the dead-letter queue.
        """
        now, page = self.clock.now(), opened.page
        if opened.last_sent_at is None or now - opened.last_sent_at < self.settings.remind_after:
            return False
        if self._delete_resolved(opened):
            return False
        if self._is_acknowledged(page.case_id) or self._silenced.holding(silences, page, opened.subject):
            return False
        if opened.failed_at is not None and now - opened.failed_at < RETRY_INTERVAL:
            raise Misconfigured(
                f"the reminder failed at {opened.failed_at:%Y-%m-%dT%H:%MZ}; the next try is an hour later"
            )
        if not self._open_pages.admit(page):
            log_cause("reminder withheld", reason="hourly limit reached", page_key=page.key)
            return False
        note = f"Reminder {opened.sent_count}: unresolved since {page.occurred_at:%Y-%m-%dT%H:%MZ}."
        try:
            self.pager.send(message_of(replace(page, note=note)))
        except Misconfigured:
            self._open_pages.update(replace(opened, failed_at=now))
            raise
        sent = replace(opened, last_sent_at=now, sent_count=opened.sent_count + 1, failed_at=None)
        self._open_pages.update(sent)
        return True

    def _is_acknowledged(self, case_id: str | None) -> bool:
        stored = self.table.get(keys.case(case_id)) if case_id else None
        until = items.read_case(stored).acknowledged_until if stored else None
        return until is not None and self.clock.now() < until

    def _delete_resolved(self, opened: OpenPage) -> bool:
        if not NotificationLog(self.table, self.clock).is_resolved(opened.page.key):
            return False
        log_cause("open page deleted", reason="its resolve was sent but not recorded", page_key=opened.page.key)
        self._open_pages.forget(opened)
        return True

    def _summarize(
        self, cluster: str, urgency: PageUrgency, withheld: Sequence[OpenPage], before: OpenPage | None
    ) -> bool:
        """Send or resolve the summary of withheld pages. Returns whether a summary or its resolve was sent.

        `before` is the open summary, or None.

        - If there are withheld pages that no summary has listed yet, a summary lists them, at most every five minutes.
        - If all withheld pages were listed, the summary is repeated as a reminder at most every `remind_after`.
        - If no withheld page is left, the open summary is resolved.

        A summary lists at most 100 pages, those with the earliest events.
        """
        if not withheld:
            return before is not None and self._resolve(before.page)
        now, unlisted = self.clock.now(), [one for one in withheld if one.last_sent_at is None]
        interval = SUMMARY_INTERVAL if unlisted else self.settings.remind_after
        if before is not None and before.last_sent_at is not None and now - before.last_sent_at < interval:
            return False
        members = sorted(unlisted or withheld, key=lambda one: one.page.occurred_at)[:MAX_MEMBERS]
        page = summary_page(cluster, urgency, members, len(withheld), now, self.settings.links)
        self.pager.send(message_of(page))
        self._open_pages.set_summary(cluster, urgency, OpenPage(page, last_sent_at=now))
        for one in members:
            self._open_pages.update(replace(one, last_sent_at=now, sent_count=one.sent_count + 1))
        return True

    def _resolve(self, summary: Page) -> bool:
        self.pager.send(message_of(resolved_summary(summary, self.clock.now())))
        self._open_pages.set_summary(summary.location.cluster, summary.urgency, None)
        return True


def summary_page(
    cluster: str, urgency: PageUrgency, members: Sequence[OpenPage], open_count: int, now: datetime, links: Links
) -> Page:
    """Return the summary that lists `members`, which are pages above the hourly page limit.

    `open_count` is the number of all withheld pages that are still open.
    """
    nodes = [one.page.location.node or one.page.key for one in members]
    more = len(nodes) - MAX_NODES_IN_TEXT
    return Page(
        key=f"{cluster}:summary:{urgency.value}",
        state=PageState.TRIGGERED,
        urgency=urgency,
        headline=f"and {len(members)} more, {open_count} open cases have no page of their own",
        fault=", ".join(nodes[:MAX_NODES_IN_TEXT]) + (f" and {more} more" if more > 0 else ""),
        location=Location(cluster),
        system_action="Processes each case separately, as far as it can without an operator.",
        action_required="Look for one cause behind many cases before you look at single cases.",
        commands=(f"faultbridge case list --cluster {cluster}", f"faultbridge timeline --cluster {cluster} --since 1h"),
        runbook=links.runbook("many-pages"),
        timeline=links.timeline(cluster),
        event_type="",
        event_id="",
        occurred_at=now,
        since=min((one.page.occurred_at for one in members), default=None),
        members=tuple(_member(one.page) for one in members),
    )


def resolved_summary(summary: Page, now: datetime) -> Page:
    """Return the page that resolves a summary of withheld pages."""
    return replace(
        summary,
        state=PageState.RESOLVED,
        headline="all cases without a page of their own are closed or no longer need one",
        fault="",
        system_action="No further action.",
        action_required=NO_ACTION,
        occurred_at=now,
        members=(),
    )


def _member(page: Page) -> SummaryMember:
    return SummaryMember(page.key, (page.location.node or "")[:MAX_NODE_LENGTH], page.code or "")
