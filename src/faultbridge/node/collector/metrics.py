"""Metrics of the collector: its own counters in the text format of Prometheus, over HTTP; standard library only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from faultbridge.model.errors import Misconfigured

if TYPE_CHECKING:
    from faultbridge.node.collector.collector import Collector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(collector: Collector) -> str:
    """Return the counters of a collector, each with its help and type."""
    return "".join(f"{line}\n" for line in _lines(collector))


def _lines(collector: Collector) -> Iterator[str]:
    sender, outbox = collector.sender, collector.sender.outbox
    for name, kind, text, value in (
        ("records_sent_total", "counter", "Records that the queue accepted.", sender.sent),
        ("records_dropped_total", "counter", "Records that could not be stored.", outbox.dropped),
        ("records_waiting", "gauge", "Records that wait to be sent.", outbox.waiting),
        ("waiting_bytes", "gauge", "Size of the records that wait to be sent.", outbox.waiting_bytes),
        ("last_send_failed", "gauge", "1 if the last attempt to send failed.", int(bool(sender.last_error))),
    ):
        yield from _head(name, kind, text)
        yield f"faultbridge_collector_{name} {value}"
    yield from _head("listed", "gauge", "1 after the first complete list of the objects of this kind.")
    for follower in collector.followers:
        yield f'faultbridge_collector_listed{{kind="{follower.kind.value}"}} {int(follower.listed.is_set())}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP faultbridge_collector_{name} {text}"
    yield f"# TYPE faultbridge_collector_{name} {kind}"


def serve_metrics(collector: Collector, port: int, address: str = "") -> ThreadingHTTPServer:
    """Serve `/metrics` in a thread until the process ends, by default on all addresses of the pod."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a request for `/metrics`; any other path gets status 404."""
            found = self.path.partition("?")[0] == "/metrics"
            body = metrics_text(collector).encode() if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do nothing, so that no access log is written."""

    try:
        server = ThreadingHTTPServer((address, port), Handler)
    except OSError as error:
        raise Misconfigured(f"cannot listen on port {port}: {error.strerror}; choose another --metrics-port") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="metrics").start()
    return server
