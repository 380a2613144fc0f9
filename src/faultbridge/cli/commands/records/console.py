"""`faultbridge console`: shows the web console of a stack in a browser."""

from __future__ import annotations

import base64
import secrets
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from faultbridge.cli.declare import BadParameter, Option, command
from faultbridge.cli.render.output import Columns, fields, notice
from faultbridge.cli.stack.locate import chosen_embedded_stack
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.model.values import replace
from faultbridge.record.timeline import Tokens
from faultbridge.serve.wiring.installation import Installation

SERVED: Columns = fields("Console")


@command("console", "", "--open --region us-east-1")
def serve_console(
    session: StackSession,
    port: Annotated[int, Option("PORT", "Port; 0 chooses a free one.", min=0, max=65535)] = 0,
    opens: Annotated[bool, Option("--open", "Open the console in the browser.")] = False,
) -> None:
    """Print the address of the web console; for a stack on AWS, serve the console until Ctrl-C.

    The console of a stack on AWS is served on 127.0.0.1 with your credentials. The console of the embedded stack runs
    until `faultbridge down`.
    """
    embedded = chosen_embedded_stack(session.target)
    if embedded is not None:
        _show(session, embedded.console, opens=opens)
        return
    installation = session.application
    try:
        server = LoopbackServer(port, installation, session.operator)
    except OSError as error:
        raise BadParameter(
            f"cannot listen on port {port}: {error.strerror}; choose another --port, or 0 for a free one"
        ) from error
    _show(session, server.address, opens=opens)
    notice("serving until Ctrl-C; only programs on this machine can connect")
    server.serve_forever()


def _show(session: Session, address: str, *, opens: bool) -> None:
    session.show_one({"console": address}, SERVED)
    if opens:
        webbrowser.open(address)


LOOPBACK = "127.0.0.1"
MAX_FORM = 10_000
"""Bytes of a form that are read; the console refuses a form of more than 4,096 characters."""


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server for the console on this host only, without authentication; orders are those of `person`."""

    daemon_threads = True

    def __init__(self, port: int, installation: Installation, person: str = "loopback") -> None:
        from faultbridge.serve.entrypoints.console import wire_console

        super().__init__((LOOPBACK, port), _Handler)
        self.installation, self.person, key = installation, person, secrets.token_bytes(32)
        pages = wire_console(installation)
        if pages.forms:  # one process signs and reads the tokens of forms, so that it needs no stored secret
            forms = replace(pages.forms, tokens=Tokens(lambda: key))
            installation.services[wire_console] = replace(pages, forms=forms)

    @property
    def address(self) -> str:
        """Return the URL of the console."""
        from faultbridge.serve.console.html import BASE

        return f"http://{LOOPBACK}:{self.server_port}{BASE}"


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a POST request, which gives an order, like a GET request."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer a GET request; a foreign `Host` header gets status 403, which prevents DNS rebinding."""
        from faultbridge.serve.console.html import BASE
        from faultbridge.serve.entrypoints.console import answer

        self.close_connection = self.command == "POST"  # a body that is not read would be the next request
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
        length = min(int(self.headers.get("Content-Length") or 0), MAX_FORM)
        return {
            "body": self.rfile.read(length).decode(errors="replace"),
            "rawPath": unquote(address.path),
            "rawQueryString": address.query,
            "headers": dict(self.headers.items()),
            "requestContext": {
                "authorizer": {"iam": {"userArn": self.server.person}},
                "http": {"method": self.command},
            },
        }

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
