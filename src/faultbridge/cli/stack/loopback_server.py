"""Serve the read-only console on 127.0.0.1 with the operator's credentials, and without authentication."""

from __future__ import annotations

import base64
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from faultbridge.serve.console.html import BASE
from faultbridge.serve.entrypoints.console import answer

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation

LOOPBACK = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server for the console of one installation; it implements only GET."""

    daemon_threads = True

    def __init__(self, port: int, installation: Installation) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.installation = installation

    @property
    def address(self) -> str:
        """Return the URL of the console."""
        return f"http://{LOOPBACK}:{self.server_port}{BASE}"


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a GET request; a foreign `Host` header gets status 403, which prevents DNS rebinding."""
        own = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        if self.headers.get("Host") not in own:
            self._send(
                403, {"Content-Type": "text/plain; charset=utf-8"}, b"unknown host name; use the printed address"
            )
            return
        if urlsplit(self.path).path == "/":
            self._send(302, {"Location": BASE}, b"")
            return
        answered = answer(self._event(), self.server.installation)
        body = base64.b64decode(answered.get("body") or "")
        self._send(answered["statusCode"], answered["headers"], body)

    def log_message(self, *_: object) -> None:
        """Do nothing, so that no access log is written."""

    def _event(self) -> dict[str, Any]:
        address = urlsplit(self.path)
        return {
            "rawPath": unquote(address.path),
            "rawQueryString": address.query,
            "headers": dict(self.headers.items()),
            "requestContext": {"authorizer": {"iam": {"userArn": "loopback"}}},
        }

    def _send(self, status: int, headers: dict[str, Any], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
