"""Post JSON to the URL of a paging service, a chat or a job webhook.

No error contains the URL, because the URL may be a secret.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from faultbridge.model.errors import Misconfigured, Transient

# The limit covers everything from the TLS handshake to the last byte of the response. The TCP connection, which is made
# before, has a time limit of its own.

PORTS = {"http": 80, "https": 443}


class Limits(Struct, frozen=True):
    """Limits of a request: seconds to connect, seconds for all after it, and bytes of the response."""

    connect: float
    total: float
    body: int


@contextmanager
def limited_connection(
    address: SplitResult, context: ssl.SSLContext | None, limits: Limits
) -> Iterator[tuple[socket.socket, threading.Event]]:
    """Yield a connection, and an event that is set when the time limit `limits.total` is reached.

    At this time, the connection is also shut down. `context` is None for plain HTTP. The time-out of a socket cannot
    limit a request, because that time-out starts again with each byte that arrives.
    """
    host, port = address.hostname or "", address.port or PORTS[address.scheme]
    connected = socket.create_connection((host, port), limits.connect)
    handle, over = connected.dup(), threading.Event()
    end = threading.Timer(limits.total, _shut_down, (handle, over))
    end.daemon = True
    end.start()
    try:
        connected.settimeout(limits.total)
        if context is not None:
            connected = context.wrap_socket(connected, server_hostname=host)
        yield connected, over
    finally:
        end.cancel()
        connected.close()
        handle.close()


def _shut_down(handle: socket.socket, over: threading.Event) -> None:
    over.set()
    try:
        handle.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the connection has ended in the meantime


MAX_ANSWER = 200
LIMITS = Limits(connect=5, total=5, body=4096)
"""Time limits of a post in seconds. At most 4096 bytes of the response are read; error texts contain its start."""


def post_json(
    service: str, url: str, body: bytes, *, page: str, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Post JSON to the URL of a service.

    Raises Transient for HTTP 429, HTTP 5xx and a missing response, and Misconfigured for any other status of 300 or
    more. Error texts name `service`. The error for an HTTP status also names `page`, the id of the page or event.
    """
    status, answer = _post(service, url, body, headers)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Transient(f"{service} returned HTTP {status} for page {page}")
    if status >= HTTPStatus.MULTIPLE_CHOICES:
        raise Misconfigured(f"{service} rejected page {page} with HTTP {status}: {answer[:MAX_ANSWER]}")


def _post(service: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    address = urlsplit(url)
    path = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    context = ssl.create_default_context() if address.scheme == "https" else None
    try:
        with limited_connection(address, context, LIMITS) as (connected, over):
            connection = http.client.HTTPConnection(address.netloc)
            connection.sock = connected
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            text = answer.read(LIMITS.body)
            # An end of the connection also ends headers and bodies without a length, so it is no error by itself.
            if over.is_set():
                raise TimeoutError(f"no complete answer after {LIMITS.total} seconds")
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"{service} cannot be reached: {error}") from error
    return answer.status, text.decode(errors="replace")
