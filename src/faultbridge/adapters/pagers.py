"""All the ways in which a deployment reaches people, as one Pager."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.eventbridge import EventBridgeBus
from faultbridge.adapters.pagerduty import BusPagerDuty, HttpPagerDuty
from faultbridge.adapters.secrets import StackSecret
from faultbridge.adapters.sns import SnsPager
from faultbridge.errors import FaultbridgeError, Misconfigured
from faultbridge.ports import PageForm, PageMessage, Pager
from faultbridge.settings import Settings

PAGE_SOURCE = "pager"
"""What follows the stack's source in the source of pages: no rule on the stack's events sees them."""


class EveryWay:
    """A Pager that sends through several; a way that fails stops no other, and the page then comes again."""

    def __init__(self, ways: Sequence[Pager]) -> None:
        self._ways = ways

    def send(self, page: PageMessage) -> str:
        """Send through all and return the first way's id; raises what the first failing way raised."""
        sent, failed = [], []
        for way in self._ways:
            try:
                sent.append(way.send(page))
            except FaultbridgeError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return sent[0]


def pager_of(settings: Settings, clients: Clients) -> Pager:
    """Put the ways together that settings name; raises Misconfigured for a way to PagerDuty that is none."""
    topics = {PageForm.ALARM: settings.pagerduty_topic, PageForm.CHAT: settings.chat_topic}
    ways: list[Pager] = [
        SnsPager(
            clients,
            urgent_topic=settings.urgent_topic,
            notice_topic=settings.notice_topic,
            form_topics={form: topic for form, topic in topics.items() if topic},
        )
    ]
    if settings.pagerduty:
        ways.append(_pagerduty(settings, clients))
    return EveryWay(ways)


def _pagerduty(settings: Settings, clients: Clients) -> Pager:
    if settings.pagerduty == "bus":
        return BusPagerDuty(EventBridgeBus(clients, settings.bus, f"{settings.event_source}.{PAGE_SOURCE}"))
    if not settings.pagerduty.startswith(("https://", "http://127.0.0.1")):
        raise Misconfigured("FAULTBRIDGE_PAGERDUTY is neither `bus` nor an https URL")
    return HttpPagerDuty(settings.pagerduty, StackSecret(clients, settings.pagerduty_key))
