"""Servers on loopback that answer as a test says, also badly."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def listening(serve: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on loopback that gives one connection to `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                connected, _ = server.accept()
                with connected, context.wrap_socket(connected, server_side=True) if context else connected as one:
                    one.recv(65536)
                    serve(one)
            except OSError:
                return  # the client ended the connection

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
    thread.join(10)


def reply(text: bytes) -> Callable[[socket.socket], None]:
    return lambda connected: connected.sendall(text)


def drip(connected: socket.socket, start: bytes = b"") -> None:
    """Send one byte after the other until the client ends the connection; each arrives before a time-out of reads."""
    wait = threading.Event()
    connected.sendall(start)
    while not wait.wait(0.05):
        connected.sendall(b"x")
