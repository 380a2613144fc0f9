"""A customer's webhook for jobs that may resume, on a port of this host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self

from faultbridge.serve.gateway.webhooks import check_signature, request_content, signed_time

SECRET = "a secret of the receiver"  # of a test


class Inbox(HTTPServer):
    """Verifies signatures as Faultbridge's own intake does and ignores repeated events.

    `received` lists the event id of each accepted post, `events` the body of each event.
    """

    def __init__(self, now: Callable[[], datetime], status: int = 204) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.now, self.status = now, status
        self.received: list[str] = []
        self.events: dict[str, bytes] = {}
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/jobs?team=a"


class _Handler(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        timestamp = self.headers["X-Faultbridge-Timestamp"]
        signed_time(timestamp, self.server.now())
        content = request_content(timestamp, "POST", self.path, body)
        check_signature(self.headers["X-Faultbridge-Signature"], content, [SECRET.encode()])
        event_id = self.headers["X-Faultbridge-Event-Id"]
        self.server.received.append(event_id)
        self.server.events[event_id] = body
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""
