"""Open connections to HTTP servers with one time limit for request and response together.

The limit covers everything from the TLS handshake to the last byte of the response. The TCP connection, which is made
before, has a time limit of its own.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult

from faultbridge.dataclass import dataclass

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request: seconds for the TCP connection (`connect`), and for all after it (`total`).

    `body` is the maximum length of the response's body in bytes. The caller of `limited_connection` enforces `body`.
    """

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
