"""Sends the pages of one event at least once. All repetitions of a page have one key.

If the table or the paging service does not respond before a page is sent, the call raises an error, and the event is
delivered again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import timedelta
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import from_text
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.log import log_cause
from faultbridge.pager.compose import StoredDetails, write_page
from faultbridge.pager.open_pages import OpenPage, OpenPages
from faultbridge.pager.page import Page, PagerSettings, PageState
from faultbridge.pager.page_deduplication import NotificationLog, PageOutcome, SendStart
from faultbridge.pager.page_rule import PageRule
from faultbridge.pager.rules import rules_for
from faultbridge.pager.service_formats import message_of
from faultbridge.pager.stored_event import is_stub, stored_data
from faultbridge.ports import Clock, Pager, Table
from faultbridge.storage import items, keys

MAX_EVENT_AGE = timedelta(days=16)

_TOO_LARGE = "The event is too large for the bus: its data was read from the table, and long texts were shortened."

_NOT_SENT = {
    PageOutcome.WITHHELD: "hourly limit reached; the next summary lists the page",
    PageOutcome.POSTPONED: "the cluster is under maintenance; the page is sent after its end",
    PageOutcome.QUIET: "the page that it resolves was not sent by itself",
    PageOutcome.KNOWN: "the page already has this state, or was never triggered",
    PageOutcome.REPEATED: "the event was processed before",
    PageOutcome.OVERTAKEN: "a later event was processed",
    PageOutcome.TOO_OLD: f"the event is older than {MAX_EVENT_AGE.days} days",
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result for one page of an event.

    `recorded` is False if the page was sent, but this could not be stored in the table.
    """

    key: str
    state: PageState
    outcome: PageOutcome
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class Paging:
    """Sends the pages that events of the bus trigger or resolve."""

    table: Table
    pager: Pager
    clock: Clock
    settings: PagerSettings = field(default_factory=PagerSettings)

    def __call__(self, event: Mapping[str, Any]) -> tuple[Delivery, ...]:
        """Send the pages that the rules require for an event, and return the result of each page.

        An event that is too large for the bus arrives without its data, which is then read from the table. An event
        older than 16 days sends no page. If the table or the paging service fails for one page, the other pages are
        still sent. Transient or Misconfigured is then raised at the end, so that the event is delivered again. The
        repetition skips the pages that were already sent and recorded.
        """
        event = self._complete(event)
        recorded_at = from_text(event["metadata"]["recorded_at"])
        if self.clock.now() - recorded_at > MAX_EVENT_AGE:
            return tuple(_not_sent(event, rule, PageOutcome.TOO_OLD) for rule in rules_for(event))
        delivered: list[Delivery] = []
        failures: list[Transient | Misconfigured] = []
        for rule in rules_for(event):
            try:
                delivered.append(self._deliver(event, rule))
            except (Transient, Misconfigured) as error:
                _log("page failed; the event is retried", event, rule, str(error), level=logging.WARNING)
                failures.append(error)
        if failures:
            raise failures[-1]
        return tuple(delivered)

    @property
    def _notifications(self) -> NotificationLog:
        return NotificationLog(self.table, self.clock)

    @property
    def _open_pages(self) -> OpenPages:
        return OpenPages(self.table, self.clock, self.settings.max_per_hour)

    def _complete(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the event with its data; the data of a stub is read from the table.

        Long texts in this data are shortened. The rules cannot match a stub, so without its data a page would be
        missing. A stub without an entry raises Misconfigured, so that the event reaches the dead-letter queue, which
        has an alarm.
        """
        metadata = event["metadata"]
        if not is_stub(metadata):
            return event
        ids = {name: metadata.get(name) for name in ("cluster", "node", "case_id", "event_id")}
        log_cause("stub completed from the table", reason="the event is too large for the bus", **ids)
        return {**event, "data": stored_data(self.table, metadata)}

    def _deliver(self, event: Mapping[str, Any], rule: PageRule) -> Delivery:
        start = self._notifications.start(event, rule)
        if start.outcome is not None:
            return _not_sent(event, rule, start.outcome)
        stored = self._stored_details(event)
        page = write_page(event, rule, stored, self.settings.links)
        if is_stub(event["metadata"]):
            page = replace(page, note=_TOO_LARGE)
        outcome = self._decide(event, page, rule, stored.config)
        message_id = self.pager.send(message_of(page)) if outcome is PageOutcome.SENT else ""
        recorded = self._record(event, rule, self._open_page(page, outcome, start), message_id)
        if outcome is not PageOutcome.SENT:
            return _not_sent(event, rule, outcome)
        return Delivery(page.key, page.state, outcome, recorded=recorded)

    def _decide(
        self, event: Mapping[str, Any], page: Page, rule: PageRule, config: ClusterConfig | None
    ) -> PageOutcome:
        """Return SENT if a page must be sent now, or the reason not to send it.

        - POSTPONED: the page triggers, and waits for the end of a maintenance of the cluster.
        - WITHHELD: the page triggers, and the hourly limit is reached.
        - QUIET: the page resolves a page that was never sent, because that page was postponed or withheld.
        """
        if page.state is PageState.TRIGGERED:
            if self._is_postponed(event, rule, config):
                return PageOutcome.POSTPONED
            return PageOutcome.SENT if self._open_pages.admit(page) else PageOutcome.WITHHELD
        opened = self._open_pages.read(page)
        was_sent = opened is None or opened.individual or opened.possibly_sent
        return PageOutcome.SENT if was_sent else PageOutcome.QUIET

    def _is_postponed(self, event: Mapping[str, Any], rule: PageRule, config: ClusterConfig | None) -> bool:
        if not rule.postponed or config is None or not config.is_maintained(self.clock.now()):
            return False
        replaced = rule.replaced_key(event)
        return replaced is None or not self._notifications.was_sent(replaced)

    def _open_page(self, page: Page, outcome: PageOutcome, start: SendStart) -> OpenPage:
        sent = outcome is PageOutcome.SENT
        sent_at = self.clock.now() if sent else None
        postponed = outcome is PageOutcome.POSTPONED
        return OpenPage(page, sent, start.possibly_sent, postponed, last_sent_at=sent_at, sent_count=int(sent))

    def _record(self, event: Mapping[str, Any], rule: PageRule, opened: OpenPage, message_id: str) -> bool:
        """Record the outcome of a page. Returns False if the page was sent but could not be recorded.

        Raises Transient or Misconfigured if the page was not sent and cannot be recorded, so that the event is
        delivered again.
        """
        pages = self._open_pages
        # If no resolve is sent, the open page must still be unsent: `remind` may have sent it after a maintenance.
        deleted = pages.delete(opened.page, if_unsent=not opened.individual)
        write = pages.put(opened) if rule.state is PageState.TRIGGERED else deleted
        try:
            self._notifications.finish(event, rule, message_id, [write])
            if rule.repeated and rule.state is PageState.TRIGGERED:
                pages.refresh(opened.page)
        except Conflict as conflict:
            # A withheld page that is not recorded is in no summary, so the event must be delivered again.
            if not opened.individual:
                raise Transient(f"the page was not sent, and this was not recorded: {conflict}") from conflict
            _log("page not recorded", event, rule, "a later event was recorded in the meantime")
            return False
        except (Transient, Misconfigured) as error:
            # A retry would send the page a second time.
            if not opened.individual:
                raise
            _log("page not recorded", event, rule, str(error), level=logging.WARNING)
            return False
        return True

    def _stored_details(self, event: Mapping[str, Any]) -> StoredDetails:
        metadata = event["metadata"]
        if metadata.get("node") is None:
            stored = self.table.get(keys.cluster_config(metadata["cluster"]))
            return StoredDetails(config=items.read_config(stored) if stored else None)
        node = NodeKey(metadata["cluster"], metadata["node"])
        state_key = keys.node_state(node)
        case_key = keys.case(metadata["case_id"]) if metadata.get("case_id") else None
        config_key = keys.cluster_config(node.cluster)
        found = self.table.get_many([state_key, config_key, *([case_key] if case_key else ())])
        case, config = found.get(case_key) if case_key else None, found.get(config_key)
        return StoredDetails(
            items.read_case(case) if case else None,
            items.read_state(node, found.get(state_key)),
            items.read_config(config) if config else None,
        )


def _not_sent(event: Mapping[str, Any], rule: PageRule, outcome: PageOutcome) -> Delivery:
    _log("page not sent", event, rule, _NOT_SENT[outcome], outcome=outcome.value)
    return Delivery(rule.key(event), rule.state, outcome)


def _log(
    decision: str, event: Mapping[str, Any], rule: PageRule, reason: str, *, level: int = logging.INFO, **ids: object
) -> None:
    metadata = event["metadata"]
    place = {name: metadata.get(name) for name in ("cluster", "node", "case_id", "event_id")}
    log_cause(
        decision, reason=reason, level=level, page_key=rule.key(event), page_state=rule.state.value, **place, **ids
    )
