"""Send pages to the webhooks of Slack and Microsoft Teams.

The pager puts one event per page and chat service on the bus. A rule of the bus starts the pager function, which posts
the event. A chat service that does not respond therefore delays no other page. Only the event for this service is
retried, and finally becomes a dead letter.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.adapters.paging.http_post import post_json
from faultbridge.errors import Misconfigured, Transient
from faultbridge.log import log_cause
from faultbridge.ports import BusEvent, EventBus, PageFormat, PageMessage

DETAIL_TYPE = "Chat Page"
SERVICES: Mapping[str, PageFormat] = {"slack": PageFormat.SLACK, "teams": PageFormat.TEAMS}


class BusChats:
    """A Pager that publishes each page on the bus, as one event for each chat service."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Publish the page for each chat service, and return the key of the page.

        Raises Transient if the bus does not accept the page for one of the chat services.
        """
        failed = self._bus.put([BusEvent(f"{page.key}:{name}", DETAIL_TYPE, _detail(page, name)) for name in SERVICES])
        if failed:
            raise Transient(f"the bus did not accept page {page.key}: {failed[0].reason}")
        return page.key


class ChatWebhooks:
    """Posts published pages to the webhooks of chat services.

    `read_addresses` returns `{"slack": URL, "teams": {"urgent": URL, "notice": URL}}`. A service or an urgency without
    an address receives no pages.
    """

    def __init__(self, read_addresses: Callable[[], bytes]) -> None:
        self._read_addresses = read_addresses

    def post(self, detail: Mapping[str, Any]) -> bool:
        """Post one page to the chat service that `detail` names; returns False without a configured address.

        Raises Transient or Misconfigured if the page could not be posted. The caller must then call again.
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
