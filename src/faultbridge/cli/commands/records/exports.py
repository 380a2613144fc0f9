"""`faultbridge exporter` and `faultbridge mcp`: the documents of the HTTP API for other systems; both only read."""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

from faultbridge.cli.declare import Option, Text, Texts, command
from faultbridge.cli.errors import requires_extra
from faultbridge.cli.export.api_client import api_client
from faultbridge.cli.render.output import LogLines, notice
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.session import StackSession
from faultbridge.decode.data import code_document
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause, logged_from

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
