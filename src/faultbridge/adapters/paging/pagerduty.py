"""PagerDuty's Events API v2: through an EventBridge API destination, or by an HTTP request."""

from __future__ import annotations

import json
from collections.abc import Callable

from faultbridge.adapters.paging.http_post import post_json
from faultbridge.errors import Transient
from faultbridge.ports import BusEvent, EventBus, PageFormat, PageMessage

DETAIL_TYPE = "Page"


class BusPagerDuty:
    """A Pager that publishes PagerDuty's event on the bus; a rule forwards it to an API destination."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Publish the event; the EventBridge connection adds the routing key."""
        detail = json.dumps({"pagerduty": json.loads(page.forms[PageFormat.PAGERDUTY].body), **page.attributes})
        failed = self._bus.put([BusEvent(page.key, DETAIL_TYPE, detail)])
        if failed:
            raise Transient(f"the bus did not accept page {page.key}: {failed[0].reason}")
        return page.key


class HttpPagerDuty:
    """A Pager that calls the Events API itself, for stacks without API destinations."""

    def __init__(self, url: str, routing_key: Callable[[], bytes]) -> None:
        self._url = url
        self._routing_key = routing_key

    def send(self, page: PageMessage) -> str:
        """Send the event and return its key.

        Raises Transient for HTTP 429, 5xx and no answer, and Misconfigured for other statuses from 300.
        """
        event = json.loads(page.forms[PageFormat.PAGERDUTY].body) | {"routing_key": self._routing_key().decode()}
        post_json("PagerDuty", self._url, json.dumps(event).encode(), page=page.key)
        return page.key
