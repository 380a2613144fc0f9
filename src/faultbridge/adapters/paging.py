"""Send pages through SNS, PagerDuty and chats."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.aws.messaging import EventBridgeBus
from faultbridge.adapters.aws.stack import StackSecret
from faultbridge.adapters.http_post import post_json
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.settings import Settings
from faultbridge.record.ports.messaging import BusEvent, EventBus, PageFormat, PageMessage, Pager, PageUrgency

SUBJECT_CHARACTERS = 100
# A subscription with raw delivery to SQS loses a message with more attributes.
ATTRIBUTES = 10


def confirmed_subscriptions(clients: Clients, topic: str) -> int:
    """Return how many subscriptions of an SNS topic are confirmed."""
    with translated(f"reading the subscriptions of {topic}"):
        return int(clients.sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("SubscriptionsConfirmed", 0))


class SnsPager:
    """A Pager with one topic per urgency; `form_topics` has additional topics, for both urgencies.

    Subscriptions of those topics can filter by the message attribute `urgency`.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        urgent_topic: str,
        notice_topic: str,
        form_topics: Mapping[PageFormat, str] | None = None,
    ) -> None:
        self._clients = clients
        self._topics = {PageUrgency.URGENT: urgent_topic, PageUrgency.NOTICE: notice_topic}
        self._form_topics = form_topics or {}

    def send(self, page: PageMessage) -> str:
        """Publish the page and its further formats; returns the message id of the topic of its urgency.

        Raises ValueError if the page has no `default` body, or more than ten attributes.
        """
        if "default" not in page.bodies:
            raise ValueError(f"page {page.key} has no default body")
        if len(page.attributes) > ATTRIBUTES:
            raise ValueError(f"page {page.key} has more than {ATTRIBUTES} attributes")
        named = {name: text for name, text in page.attributes.items() if text}
        attributes = {name: {"DataType": "String", "StringValue": text} for name, text in named.items()}
        message_id = self._publish(
            self._topics[page.urgency],
            page.subject,
            Message=json.dumps(dict(page.bodies)),
            MessageStructure="json",
            MessageAttributes=attributes,
        )
        for form, topic in self._form_topics.items():
            if form in page.forms:
                formed = page.forms[form]
                self._publish(topic, formed.subject, Message=formed.body, MessageAttributes=attributes)
        return message_id

    def _publish(self, topic: str, subject: str, **message: Any) -> str:  # noqa: ANN401 - the arguments of the API call
        with translated(f"publishing a page to {topic}"):
            answer = self._clients.sns.publish(TopicArn=topic, Subject=subject_line(subject), **message)
        return answer["MessageId"]


def subject_line(text: str) -> str:
    """Return a subject that SNS accepts: one line of 1 to 100 printable ASCII characters, `?` for others."""
    plain = "".join(letter if letter.isascii() else "?" for letter in " ".join(text.split()))
    shown = "".join(letter for letter in plain if letter.isprintable()).strip() or "(no subject)"
    return shown if len(shown) <= SUBJECT_CHARACTERS else shown[: SUBJECT_CHARACTERS - 3] + "..."


PAGERDUTY_DETAIL_TYPE = "Page"


class BusPagerDuty:
    """A Pager that puts PagerDuty events on the bus; a rule forwards them to an API destination."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Publish the event, to which the EventBridge connection adds the routing key."""
        detail = json.dumps({"pagerduty": json.loads(page.forms[PageFormat.PAGERDUTY].body), **page.attributes})
        return _put(self._bus, page, [BusEvent(page.key, PAGERDUTY_DETAIL_TYPE, detail)])


def _put(bus: EventBus, page: PageMessage, events: Sequence[BusEvent]) -> str:
    failed = bus.put(events)
    if failed:
        raise Transient(f"the bus did not accept page {page.key}: {failed[0].reason}")
    return page.key


class HttpPagerDuty:
    """A Pager that calls PagerDuty's Events API by HTTP, for stacks without EventBridge API destinations."""

    def __init__(self, url: str, routing_key: Callable[[], bytes]) -> None:
        self._url = url
        self._routing_key = routing_key

    def send(self, page: PageMessage) -> str:
        """Send the event to PagerDuty; raises Transient for HTTP 429, 5xx and no response, else Misconfigured."""
        event = json.loads(page.forms[PageFormat.PAGERDUTY].body) | {"routing_key": self._routing_key().decode()}
        post_json("PagerDuty", self._url, json.dumps(event).encode(), page=page.key)
        return page.key


# The pager puts one event per page and chat service on the bus. A rule of the bus starts the pager function, which
# posts the event. A chat service that does not respond therefore delays no other page. Only the event for this service
# is retried, and finally becomes a dead letter.

CHAT_DETAIL_TYPE = "Chat Page"
SERVICES: Mapping[str, PageFormat] = {"slack": PageFormat.SLACK, "teams": PageFormat.TEAMS}


class BusChats:
    """A Pager that publishes each page on the bus, as one event for each chat service."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Publish the page for each chat service; raises Transient if the bus does not accept one of them."""
        events = [BusEvent(f"{page.key}:{name}", CHAT_DETAIL_TYPE, _detail(page, name)) for name in SERVICES]
        return _put(self._bus, page, events)


class ChatWebhooks:
    """Posts published pages to the webhooks of chat services.

    `read_addresses` returns `{"slack": URL, "teams": {"urgent": URL, "notice": URL}}`. A service or an urgency without
    an address receives no pages.
    """

    def __init__(self, read_addresses: Callable[[], bytes]) -> None:
        self._read_addresses = read_addresses

    def post(self, detail: Mapping[str, Any]) -> bool:
        """Post a page to the chat service that `detail` names; returns False without a configured address.

        Raises Transient or Misconfigured if the page could not be posted: the caller must call again.
        """
        service, page = str(detail["service"]), str(detail["page"])
        address = self._address(service, str(detail["urgency"]))
        if address is None:
            return False
        try:
            post_json(service, address, json.dumps(detail["body"]).encode(), page=page)
        except (Transient, Misconfigured) as error:
            log_cause("chat page failed; it is retried", reason=str(error), level=logging.ERROR, page_key=page)
            raise
        return True

    def _address(self, service: str, urgency: str) -> str | None:
        try:
            given = json.loads(self._read_addresses()).get(service)
            address = given.get(urgency) if isinstance(given, dict) else given
        except (ValueError, AttributeError):
            raise Misconfigured("the chat webhooks cannot be read; correct the JSON in the secret") from None
        if address is not None and not str(address).startswith(("https://", "http://127.0.0.1:")):
            raise Misconfigured(f"the address of {service} is not an https URL; correct it in the secret")
        return address


def _detail(page: PageMessage, service: str) -> str:
    body = json.loads(page.forms[SERVICES[service]].body)
    return json.dumps({"service": service, "page": page.key, "urgency": page.urgency.value, "body": body})


PAGE_SOURCE = "pager"
"""Suffix of the event source of pages, so that no rule on the stack's events matches them."""


class AllChannels:
    """A Pager of several channels; if one fails, the others still send, and the page is repeated."""

    def __init__(self, channels: Sequence[Pager]) -> None:
        self._channels = channels

    def send(self, page: PageMessage) -> str:
        """Send the page through all channels; returns the first message id, or raises the first error."""
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
    """Return a pager for all channels; PagerDuty is empty, `bus`, or a URL (https, or http on 127.0.0.1)."""
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
