"""Entries arrive at an OpenTelemetry collector as logs, each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from faultbridge.cli.commands.records.servers import ApiClient
from faultbridge.cli.export.metrics import EntryLogs, open_provider
from tests.api.gateway import Gateway


class Receiver(HTTPServer):
    """The logs endpoint of a collector; `logs` has what was posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.logs: list[Any] = []


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        import gzip

        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        posted = ExportLogsServiceRequest.FromString(body)
        assert self.path == "/v1/logs"
        self.server.logs += [
            log for resource in posted.resource_logs for scope in resource.scope_logs for log in scope.log_records
        ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def attributes(log: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in log.attributes}


def test_each_entry_is_one_log_also_after_repeated_reads(gateway: Gateway, api: ApiClient, receiver: Receiver) -> None:
    world = gateway.world
    provider = open_provider(f"http://127.0.0.1:{receiver.server_port}")
    logs = EntryLogs(api, provider, (), world.now - timedelta(hours=1))
    first = logs.send_new()
    assert logs.send_new() == 0
    world.ports.clock.advance(timedelta(seconds=90))
    world.outcomes(world.message(node="n-1"))
    assert logs.send_new() > 0
    provider.shutdown()
    entries = gateway.get("/clusters/train-a/entries", limit=500).json["items"]
    assert 0 < first < len(entries)
    assert [attributes(one)["cloudevents.event_id"] for one in receiver.logs] == [
        one["metadata"]["event_id"] for one in entries
    ]
    fault = next(one for one in receiver.logs if one.event_name == "Node Fault Detected")
    assert fault.severity_text == "fatal"
    assert attributes(fault)["faultbridge.node"] == "n-1"
    assert fault.time_unix_nano == int(world.now.timestamp()) * 10**9
    body = {one.key: one.value for one in fault.body.kvlist_value.values}
    assert {"metadata", "data", "hash"} <= set(body)
