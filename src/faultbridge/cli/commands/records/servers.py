"""`faultbridge console`, `exporter` and `mcp`: serve a stack to a browser, to Prometheus and to assistants."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import Request, urlopen

from faultbridge.adapters.aws.clients import signed_headers
from faultbridge.cli.declare import BadParameter, Option, Text, Texts, command
from faultbridge.cli.errors import requires_extra
from faultbridge.cli.render.output import Columns, LogLines, fields, notice
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.locate import checked_endpoint, chosen_embedded_stack
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decode.data import code_document
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, Transient
from faultbridge.model.log import log_cause, logged_from
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


ApiOption = Annotated[Text, Option("--api URL", "Address of the API. Default: output ApiUrl of the stack.")]


@command("exporter", "--port 9723", "--cluster train-a --otlp http://127.0.0.1:4318", "--api https://api.example.com")
def run_exporter(
    session: StackSession,
    api: ApiOption = None,
    clusters: Annotated[Texts, Option("--cluster CLUSTER", "Only this cluster. Repeatable. Default: all.")] = None,
    address: Annotated[str, Option("IP", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("PORT", "Port of /metrics.", min=0, max=65535)] = 9723,
    interval: Annotated[int, Option("SECONDS", "Read the API at most once in this time.", min=1)] = 30,
    otlp: Annotated[Text, Option("URL", "Also send entries as OTLP logs to this collector.")] = None,
    since: Annotated[Text, Option("TIME", f"With --otlp: send entries since then. {PAST_HELP}")] = None,
) -> None:
    """Serve the state of clusters as Prometheus metrics until stopped; with --otlp, send entries as logs too.

    The exporter reads the HTTP API and nothing else: it needs a token for reading in FAULTBRIDGE_API_TOKEN, or AWS
    credentials that may call GET of the API. Install it with `pip install 'faultbridge[exporter]'`.
    """
    client, now = api_client(session, api), datetime.now(UTC)
    with requires_extra("exporter"):
        from prometheus_client import CollectorRegistry, start_http_server

        from faultbridge.cli.export.metrics import EntryLogs, FleetCollector, open_provider
    begin = parse_time(since, now, "--since") or now
    logs = EntryLogs(client, open_provider(otlp), clusters or [], begin) if otlp else None
    registry = CollectorRegistry()
    registry.register(FleetCollector(client, clusters or [], interval, time.monotonic))
    start_http_server(port, address, registry)
    notice(f"metrics at http://{address}:{port}/metrics until Ctrl-C")
    with logged_from(logging.INFO, LogLines(sys.stderr)):
        while True:
            try:
                if logs is not None:
                    logs.send_new()
            except FaultbridgeError as error:  # the next interval reads the same entries
                log_cause("entries_not_sent", reason=str(error), level=logging.WARNING)
            time.sleep(interval)


@command("mcp", "", "--stack faultbridge --region us-east-1")
def serve_tools(session: StackSession, api: ApiOption = None) -> None:
    """Serve read-only tools for assistants on standard input and output (Model Context Protocol).

    The tools read the HTTP API and the catalog; no order can be given through them. Configure this command in the
    assistant. Install it with `pip install 'faultbridge[mcp]'`.
    """
    with requires_extra("mcp"):
        from faultbridge.cli.export.tools import Tools, build_server
    build_server(Tools(api_client(session, api), code_document), version("faultbridge")).run()
