"""A loopback server that replaces API Gateway and calls the intake function, in payload format 2.0 of an HTTP API."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import threading

from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.intake import intake
from faultbridge.serve.ingest.record_reader import Delivery
from tests.gateway.requests import SECRET, signed_headers
from tests.world import World


class Gateway:
    """An HTTP server that passes requests to the function in the format of an HTTP API."""

    def __init__(self, world: World) -> None:
        gateway = self
        self.world = world
        self.at: int | None = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                _, _, sender, source = self.path.split("/")
                event = {
                    "version": "2.0",
                    "routeKey": "POST /intake/{sender}/{source}",
                    "rawPath": self.path,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                    "pathParameters": {"sender": sender, "source": source},
                    "requestContext": {"http": {"method": "POST", "path": self.path}, "stage": "$default"},
                    "body": base64.b64encode(body).decode(),
                    "isBase64Encoded": True,
                }
                answer = intake(event, gateway.world.app)
                self.send_response(answer["statusCode"])
                for name, value in answer["headers"].items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer["body"].encode())

            def log_message(self, *_: object) -> None:
                return

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def post(self, body: bytes, sender: str = "prometheus", secret: str = SECRET) -> tuple[int, str]:
        """Sign and post a body; return the status and the reason, which is empty for an accepted post."""
        at = str(self.at or int(self.world.now.timestamp()))
        signed = signed_headers(at, f"/intake/{sender}/faultbridge", body, secret)
        connection = http.client.HTTPConnection("127.0.0.1", self._server.server_port, timeout=30)
        connection.request("POST", f"/intake/{sender}/faultbridge", body, signed)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        connection.close()
        return answer.status, document.get("reason", document.get("type", "")) if answer.status != 202 else ""

    def ingest_all(self) -> list[str]:
        """Ingest everything on the queue; return the reasons of rejected records."""
        queue, reasons = self.world.ports.queue, []
        while received := queue.receive():
            reasons += (
                wire_ingest(self.world.app)
                .ingest([Delivery(one.handle, one.body, one.sent_at) for one in received])
                .reasons.values()
            )
            for one in received:
                queue.delete(one)
        return reasons

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
