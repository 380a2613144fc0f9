"""Send pages to PagerDuty's Events API v2, through an EventBridge API destination or by HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable

from faultbridge.adapters.paging.http_post import post_json
from faultbridge.errors import Transient
from faultbridge.ports import BusEvent, EventBus, PageFormat, PageMessage

DETAIL_TYPE = "Page"


class BusPagerDuty:
    """A Pager that publishes each page as a PagerDuty event on the bus.

    A rule of the bus forwards the event to PagerDuty through an EventBridge API destination.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Publish the PagerDuty event on the bus, and return the key of the page.

        The EventBridge connection adds the routing key. Raises Transient if the bus does not accept the event.
        """
        detail = json.dumps({"pagerduty": json.loads(page.forms[PageFormat.PAGERDUTY].body), **page.attributes})
        failed = self._bus.put([BusEvent(page.key, DETAIL_TYPE, detail)])
        if failed:
            raise Transient(f"the bus did not accept page {page.key}: {failed[0].reason}")
        return page.key


class HttpPagerDuty:
    """A Pager that calls PagerDuty's Events API by HTTP, for stacks without EventBridge API destinations."""

    def __init__(self, url: str, routing_key: Callable[[], bytes]) -> None:
        self._url = url
        self._routing_key = routing_key

    def send(self, page: PageMessage) -> str:
        """Send the event to PagerDuty, and return the key of the page.

        Raises Transient for HTTP 429, HTTP 5xx and a missing response, and Misconfigured for any other status of 300 or
        more.
        """
        event = json.loads(page.forms[PageFormat.PAGERDUTY].body) | {"routing_key": self._routing_key().decode()}
        post_json("PagerDuty", self._url, json.dumps(event).encode(), page=page.key)
        return page.key
