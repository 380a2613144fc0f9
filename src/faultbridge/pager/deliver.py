"""Deliver: each page at least once, its repetitions under the same key, and never none because the table is down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import from_text, to_text
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.pager.compose import Known, over, write_page
from faultbridge.pager.notification_log import Begun, Fate, Marks
from faultbridge.pager.open_pages import LivePage, LivePages
from faultbridge.pager.page import Page, PagerSettings, PageState
from faultbridge.pager.page_rule import PageRule
from faultbridge.pager.rules import rules_for
from faultbridge.pager.service_formats import message_of
from faultbridge.ports import Clock, Pager, Table
from faultbridge.storage import items, keys

TOO_OLD = timedelta(days=16)
BLIND = "The table did not answer: this page may repeat an earlier one, and details may be missing."


@dataclass(frozen=True, slots=True)
class Delivered:
    """One page of an event: its key, what became of it, and whether that could be noted."""

    key: str
    state: PageState
    fate: Fate
    noted: bool = True


@dataclass(frozen=True, slots=True)
class Paging:
    """Turns events of the bus into pages; raises only when a page could not be sent."""

    table: Table
    pager: Pager
    clock: Clock
    settings: PagerSettings = field(default_factory=PagerSettings)
    blindly: Counter[str] = field(default_factory=Counter)
    told: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, event: Mapping[str, Any]) -> tuple[Delivered, ...]:
        """Send every page that an event's detail asks for.

        Raises Transient when the pager does not answer, and when the table does not: the page is out then, and the
        event must come again until it is noted, or its end would be told to nobody.
        """
        recorded = from_text(event["metadata"]["recorded_at"])
        if self.clock.now() - recorded > TOO_OLD:
            return tuple(Delivered(rule.key(event), rule.state, Fate.TOO_OLD) for rule in rules_for(event))
        delivered, failures = [], []
        for rule in rules_for(event):
            try:
                delivered.append(self._deliver(event, rule))
            except Transient as error:
                failures.append(error)
        if failures:
            raise failures[-1]
        return tuple(delivered)

    @property
    def _marks(self) -> Marks:
        return Marks(self.table, self.clock)

    @property
    def _live(self) -> LivePages:
        return LivePages(self.table, self.clock, self.settings.max_per_hour)

    def _deliver(self, event: Mapping[str, Any], rule: PageRule) -> Delivered:
        key = rule.key(event)
        told = (event["metadata"]["event_id"], key)
        try:
            begun = self._marks.begin(event, rule)
            owes_end = begun.fate is Fate.OVERTAKEN and (begun.maybe_told or told in self.told)
            if begun.fate is not None and not owes_end:
                return Delivered(key, rule.state, begun.fate)
            # Of what is over nothing more is asked: a table that goes away now must not make it begin again.
            known = Known() if owes_end else self._known(event)
            page = write_page(event, rule, known, self.settings.links)
            fate = Fate.SENT if owes_end or told in self.told else self._judge(page)
        except Misconfigured:
            return self._deliver_blindly(event, rule)
        except Transient:
            # Whether the trouble was told, nobody can say now: an end waits.
            if rule.state is PageState.TRIGGERED and told not in self.told:
                self._deliver_blindly(event, rule)
                self.told.add(told)
            raise
        if owes_end:
            return self._end(event, rule, over(page))
        message_id = self.pager.send(message_of(page)) if fate is Fate.SENT and told not in self.told else ""
        noted = self._note(event, rule, self._live_page(page, fate, begun), message_id)
        self.told.discard(told)
        return Delivered(key, rule.state, fate, noted=noted)

    def _end(self, event: Mapping[str, Any], rule: PageRule, page: Page) -> Delivered:
        """Tell that a trouble is over which somebody may have heard of without the table, and whose end nobody did."""
        self.pager.send(message_of(page))
        self._marks.end_told(event, rule)
        self.told.discard((event["metadata"]["event_id"], page.key))
        return Delivered(page.key, page.state, Fate.SENT)

    def _judge(self, page: Page) -> Fate:
        if page.state is PageState.TRIGGERED:
            return Fate.SENT if self._live.admits(page) else Fate.WITHHELD
        live = self._live.read(page)
        return Fate.SENT if live is None or live.own or live.maybe_told else Fate.QUIET

    def _live_page(self, page: Page, fate: Fate, begun: Begun) -> LivePage:
        own = fate is Fate.SENT
        return LivePage(page, own, begun.maybe_told, told_at=self.clock.now() if own else None, times=int(own))

    def _note(self, event: Mapping[str, Any], rule: PageRule, live: LivePage, message_id: str) -> bool:
        """Note what became of a page; what nobody was told yet must be noted, or the event comes again."""
        beside = self._live.begins(live) if rule.state is PageState.TRIGGERED else self._live.ends(live.page)
        try:
            self._marks.settle(event, rule, message_id, [beside])
        except Conflict:
            return False  # its trouble went on meanwhile, and whoever brings that has told it
        except (Transient, Misconfigured):
            # A page that is out would only be sent again.
            if not live.own:
                raise
            return False
        return True

    def _deliver_blindly(self, event: Mapping[str, Any], rule: PageRule) -> Delivered:
        """Send without the table; raises Transient beyond the hour's limit, so that the event comes again."""
        page = write_page(event, rule, Known(note=BLIND), self.settings.links)
        hour = f"{page.place.cluster} {page.urgency} {to_text(self.clock.now())[:13]}"
        limited = page.state is PageState.TRIGGERED and page.place.node is not None
        if limited and self.blindly[hour] >= self.settings.max_per_hour:
            raise Transient(f"the table does not answer, and {self.settings.max_per_hour} pages are out without it")
        self.blindly[hour] += limited
        self.pager.send(message_of(page))
        return Delivered(rule.key(event), rule.state, Fate.SENT, noted=False)

    def _known(self, event: Mapping[str, Any]) -> Known:
        metadata = event["metadata"]
        if metadata.get("node") is None:
            return Known()
        node = NodeKey(metadata["cluster"], metadata["node"])
        places = [keys.node_state(node), *([keys.case(metadata["case_id"])] if metadata.get("case_id") else [])]
        found = self.table.get_many(places)
        case = found.get(places[-1]) if len(places) > 1 else None
        return Known(items.read_case(case) if case else None, items.read_state(node, found.get(places[0])))
