"""Read the HTTP API of a stack, with a token or with the AWS credentials of the caller; only GET is used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from faultbridge.adapters.aws.clients import signed_headers
from faultbridge.cli.stack.locate import checked_endpoint, chosen_embedded_stack
from faultbridge.cli.stack.session import Session
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, Transient

TOKEN_VARIABLE = "FAULTBRIDGE_API_TOKEN"  # noqa: S105 - the name of a variable
SECONDS = 30
PAGE_SIZE = 500
MAX_DETAIL = 200

Authorize = Callable[[str], Mapping[str, str]]
"""Returns the headers that authorize a GET of an address."""


class ApiClient:
    """Reads documents of the HTTP API at an address; `authorize` returns the headers of each request."""

    def __init__(self, address: str, authorize: Authorize) -> None:
        self._address, self._authorize = address.rstrip("/"), authorize

    def get(self, *path: str, **query: object) -> dict[str, Any]:
        """Return a document. Raises Rejected for HTTP 4xx, and Transient for 429, 5xx and a missing response."""
        given = {name: value for name, value in query.items() if value is not None}
        place = "/".join(quote(part, safe="") for part in path)
        url = f"{self._address}/{place}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        try:
            with urlopen(Request(url, headers=dict(self._authorize(url))), timeout=SECONDS) as answer:  # noqa: S310 - checked
                document: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            raise _failure(error, place) from None
        except (URLError, OSError, ValueError) as error:
            raise Transient(f"the API cannot be read: {error}") from error
        return document

    def items(self, *path: str, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        token = None
        while True:
            page = self.get(*path, **query, token=token)
            yield from page["items"]
            token = page.get("next")
            if token is None:
                return

    def clusters(self) -> list[str]:
        """Return the names of all clusters."""
        return [one["cluster"] for one in self.items("clusters")]


def _failure(error: HTTPError, place: str) -> FaultbridgeError:
    try:
        detail = str(json.load(error).get("detail") or error.reason)
    except (OSError, ValueError, AttributeError):
        detail = error.reason
    text = f"GET /{place}: HTTP {error.code}: {detail[:MAX_DETAIL]}"
    if error.code == HTTPStatus.TOO_MANY_REQUESTS or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Transient(text)
    if error.code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Misconfigured(f"{text}; allow execute-api:Invoke, or set {TOKEN_VARIABLE} to a token")
    return Rejected("api", text)


def api_client(session: Session, address: str | None) -> ApiClient:
    """Return a client of the API at an address, by default of the stack: with the token of the variable, or signed."""
    url = checked_endpoint("--api", address) or session.settings.api_url
    if not url:
        raise Misconfigured("the stack has no API; give its address with --api")
    token = os.environ.get(TOKEN_VARIABLE)
    if token:
        return ApiClient(url, lambda _url: {"Authorization": f"Bearer {token}"})
    if address is None and chosen_embedded_stack(session.target) is not None:
        return ApiClient(url, lambda _url: {})
    return ApiClient(url, lambda signed: signed_headers(session.clients, signed))
