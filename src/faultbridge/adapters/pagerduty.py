"""PagerDuty's Events API v2: through an API destination of the bus on AWS, or by a plain post elsewhere."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from urllib.parse import urlsplit

from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import BusEvent, EventBus, PageForm, PageMessage

DETAIL_TYPE = "Page"
SECONDS = 5
TOO_MANY, SERVER_ERROR, LAST_GOOD = 429, 500, 299


class BusPagerDuty:
    """A Pager that puts PagerDuty's event on the bus, where a rule hands it to an API destination."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def send(self, page: PageMessage) -> str:
        """Put the event; the routing key is the connection's and never passes through here."""
        detail = json.dumps({"pagerduty": json.loads(page.forms[PageForm.PAGERDUTY].body), **page.attributes})
        refused = self._bus.put([BusEvent(page.key, DETAIL_TYPE, detail)])
        if refused:
            raise Transient(f"the bus did not take page {page.key}: {refused[0].reason}")
        return page.key


class HttpPagerDuty:
    """A Pager that posts to the Events API itself, for places without API destinations."""

    def __init__(self, url: str, routing_key: Callable[[], bytes]) -> None:
        self._url = urlsplit(url)
        self._routing_key = routing_key

    def send(self, page: PageMessage) -> str:
        """Post the event and return its key; Transient where PagerDuty asks to come again, else Misconfigured."""
        event = json.loads(page.forms[PageForm.PAGERDUTY].body) | {"routing_key": self._routing_key().decode()}
        status, answer = self._post(json.dumps(event).encode())
        if status == TOO_MANY or status >= SERVER_ERROR:
            raise Transient(f"PagerDuty answers {status}")
        if status > LAST_GOOD:
            raise Misconfigured(f"PagerDuty refuses page {page.key} with {status}: {answer[:200]}")
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
