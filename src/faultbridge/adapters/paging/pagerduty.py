"""PagerDuty's Events API v2: through an EventBridge API destination, or by an HTTP request."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import BusEvent, EventBus, PageFormat, PageMessage

DETAIL_TYPE = "Page"
SECONDS = 5


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
        self._url = urlsplit(url)
        self._routing_key = routing_key

    def send(self, page: PageMessage) -> str:
        """Send the event and return its key; raises Transient for HTTP 429 and 5xx, else Misconfigured."""
        event = json.loads(page.forms[PageFormat.PAGERDUTY].body) | {"routing_key": self._routing_key().decode()}
        status, answer = self._post(json.dumps(event).encode())
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Transient(f"PagerDuty returned HTTP {status} for page {page.key}")
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            raise Misconfigured(f"PagerDuty rejected page {page.key} with HTTP {status}: {answer[:200]}")
        return page.key

    def _post(self, body: bytes) -> tuple[int, str]:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.netloc, timeout=SECONDS)
        try:
            connection.request("POST", self._url.path or "/", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except OSError as error:
            raise Transient(f"PagerDuty cannot be reached: {error}") from error
        finally:
            connection.close()
