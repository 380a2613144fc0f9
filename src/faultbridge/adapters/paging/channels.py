"""Send each page through every channel that a deployment configures."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.stack import StackSecret
from faultbridge.adapters.messaging.eventbridge import EventBridgeBus
from faultbridge.adapters.paging.chat_webhooks import BusChats
from faultbridge.adapters.paging.pagerduty import BusPagerDuty, HttpPagerDuty
from faultbridge.adapters.paging.sns import SnsPager
from faultbridge.errors import FaultbridgeError, Misconfigured
from faultbridge.ports import PageFormat, PageMessage, Pager
from faultbridge.settings import Settings

PAGE_SOURCE = "pager"
"""Suffix of the event source of pages, so that no rule on the stack's events matches them."""


class AllChannels:
    """A Pager that sends each page through several channels.

    If one channel fails, the other channels still send the page. The call then raises the error, so that the caller
    sends the page again through all channels.
    """

    def __init__(self, channels: Sequence[Pager]) -> None:
        self._channels = channels

    def send(self, page: PageMessage) -> str:
        """Send the page through all channels; returns the message id of the first channel.

        Raises the first error if any channel failed.
        """
        sent, failed = [], []
        for channel in self._channels:
            try:
                sent.append(channel.send(page))
            except FaultbridgeError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return sent[0]


def pager_from_settings(settings: Settings, clients: Clients) -> Pager:
    """Return a pager for all configured channels.

    Raises Misconfigured for an invalid PagerDuty setting. Valid settings are an empty text, `bus`, an https URL, and an
    http URL on 127.0.0.1.
    """
    topics = {PageFormat.ALARM: settings.pagerduty_topic, PageFormat.CHAT: settings.chat_topic}
    channels: list[Pager] = [
        SnsPager(
            clients,
            urgent_topic=settings.urgent_topic,
            notice_topic=settings.notice_topic,
            form_topics={form: topic for form, topic in topics.items() if topic},
        )
    ]
    if settings.pagerduty:
        channels.append(_pagerduty(settings, clients))
    if settings.chat_webhooks:
        channels.append(BusChats(_bus(settings, clients)))
    return AllChannels(channels)


def _pagerduty(settings: Settings, clients: Clients) -> Pager:
    if settings.pagerduty == "bus":
        return BusPagerDuty(_bus(settings, clients))
    if not settings.pagerduty.startswith(("https://", "http://127.0.0.1:")):
        raise Misconfigured(f"invalid FAULTBRIDGE_PAGERDUTY: {settings.pagerduty!r}; `bus` or an https URL")
    return HttpPagerDuty(settings.pagerduty, StackSecret(clients, settings.pagerduty_key))


def _bus(settings: Settings, clients: Clients) -> EventBridgeBus:
    return EventBridgeBus(clients, settings.bus, f"{settings.event_source}.{PAGE_SOURCE}")
