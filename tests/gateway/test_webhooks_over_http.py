"""Webhooks over real HTTP: a loopback server replaces API Gateway and calls the function.

The event has the payload format 2.0 of an HTTP API. The embedded stack has no secret with webhook senders, so these
tests set their own.
"""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from faultbridge.domain.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.entrypoints.intake import intake
from faultbridge.ingest.record_reader import Delivery
from faultbridge.registry.registration import NewNode
from tests.builders import KEY
from tests.gateway.requests import ALERT, SECRET, signed_headers
from tests.world import World

NEIGHBOR = "train-b"
SENDERS = {
    "prometheus": {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]},
    "forgotten": {"cluster": "no-such-cluster", "sources": ["faultbridge"], "secrets": [SECRET]},
}


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
            reasons += self.world.app.ingestion.ingest(
                [Delivery(one.handle, one.body, one.sent_at) for one in received]
            ).reasons.values()
            for one in received:
                queue.delete(one)
        return reasons

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    world = World()
    world.ports.senders = SENDERS
    other = ClusterConfig(NEIGHBOR, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    world.app.registry.registration.add_cluster(other)
    instance = world.ports.fleet.launch("their-workers")
    world.app.registry.registration.add_node(NEIGHBOR, NewNode("their-node", instance, group="their-workers"))
    server = Gateway(world)
    yield server
    server.close()


def affected_nodes(gateway: Gateway) -> list[str]:
    """Return the streams of the nodes with an active condition or a case."""
    keys = [KEY, node_key(NEIGHBOR, "their-node")]
    states = [gateway.world.node(key) for key in keys]
    return [state.key.stream for state in states if list(state.active()) or state.case]


def node_key(cluster: str, node: str):
    return KEY._replace(cluster=cluster, node=node)


def alert(**others: object) -> bytes:
    return json.dumps({**json.loads(ALERT), **others}).encode()


def test_a_signed_post_is_recorded_on_the_node_that_it_names(gateway: Gateway) -> None:
    assert gateway.post(alert()) == (202, "")
    assert gateway.ingest_all() == []
    assert affected_nodes(gateway) == [KEY.stream]


def test_a_post_for_a_node_of_another_cluster_is_refused_by_any_of_its_names(gateway: Gateway) -> None:
    incarnation = gateway.world.node(node_key(NEIGHBOR, "their-node")).incarnation
    assert incarnation is not None
    for name in ("their-node", incarnation.instance_id, f"hyperpod-{incarnation.instance_id}"):
        assert gateway.post(alert(node=name, cluster=NEIGHBOR)) == (202, "")
        assert gateway.ingest_all() == ["unknown_node"]
    assert affected_nodes(gateway) == []


def test_a_post_for_an_unregistered_cluster_is_refused(gateway: Gateway) -> None:
    assert gateway.post(alert(), sender="forgotten") == (202, "")
    assert gateway.ingest_all() == ["unknown_cluster"]
    assert affected_nodes(gateway) == []


def test_a_replayed_post_is_refused(gateway: Gateway) -> None:
    gateway.at = int(gateway.world.now.timestamp())
    assert gateway.post(alert()) == (202, "")
    assert gateway.post(alert())[0] == 409
    assert len(gateway.world.ports.queue.messages) == 1


@pytest.mark.parametrize(
    ("body", "sender", "secret", "status"),
    [
        (alert(), "prometheus", "a secret that was guessed", 401),
        (alert(), "unknown", SECRET, 401),
        (b"x" * 10_000_000, "prometheus", SECRET, 413),
    ],
    ids=["wrong signature", "unknown sender", "ten megabytes"],
)
def test_an_unproven_or_too_large_post_is_refused_with_a_reason(
    gateway: Gateway, body: bytes, sender: str, secret: str, status: int
) -> None:
    answered, problem = gateway.post(body, sender, secret)
    assert answered == status
    assert problem
    assert gateway.world.ports.queue.messages == []
    assert affected_nodes(gateway) == []
