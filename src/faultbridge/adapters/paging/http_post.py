"""Posts JSON to a paging or chat service; no error contains the address, which may be a secret."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import urlsplit

from faultbridge.errors import Misconfigured, Transient

SECONDS = 5
MAX_ANSWER = 200


def post_json(
    service: str, url: str, body: bytes, *, page: str, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Post JSON. Raises Transient for HTTP 429, 5xx and no answer, and Misconfigured for other statuses from 300.

    `service` and `page`, the id of the page or event, are named in error texts.
    """
    status, answer = _post(service, url, body, headers)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Transient(f"{service} returned HTTP {status} for page {page}")
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise Misconfigured(f"{service} rejected page {page} with HTTP {status}: {answer[:MAX_ANSWER]}")


def _post(service: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    address = urlsplit(url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=SECONDS)
    path = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"{service} cannot be reached: {error}") from error
    finally:
        connection.close()
