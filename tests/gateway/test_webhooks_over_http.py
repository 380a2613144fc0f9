"""The webhook door over real HTTP: a server on loopback plays the gateway, and calls the function's own entry point.

The event is that of an HTTP API, payload 2.0; who may post is a secret that the embedded stack does not have.
"""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.entrypoints.intake import intake
from faultbridge.gateway.signature import sign
from faultbridge.ingest.record_reader import Delivery
from faultbridge.registry.registration import NewNode
from tests.builders import KEY
from tests.gateway.test_gateway import ALERT, SECRET
from tests.world import World

NEIGHBOUR = "train-b"
SENDERS = {
    "prometheus": {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]},
    "forgotten": {"cluster": "no-such-cluster", "sources": ["faultbridge"], "secrets": [SECRET]},
}


class Gateway:
    """An HTTP server that hands requests over as an HTTP API does."""

    def __init__(self, world: World) -> None:
        outer = self
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
                answer = intake(event, outer.world.app)
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
        """Sign and post a body; returns the status and the reason, empty when it was taken."""
        at = str(self.at or int(self.world.now.timestamp()))
        signed = {"X-Faultbridge-Timestamp": at, "X-Faultbridge-Signature": sign(at, body, secret.encode())}
        connection = http.client.HTTPConnection("127.0.0.1", self._server.server_port, timeout=30)
        connection.request("POST", f"/intake/{sender}/faultbridge", body, signed)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        connection.close()
        return answer.status, document.get("reason", document.get("type", "")) if answer.status != 202 else ""

    def let_ingest_run(self) -> list[str]:
        """Work everything on the queue; returns the reasons of the records that were rejected."""
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
    other = ClusterConfig(NEIGHBOUR, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    world.app.registry.registration.add_cluster(other)
    instance = world.ports.fleet.launch("their-workers")
    world.app.registry.registration.add_node(NEIGHBOUR, NewNode("their-node", instance, group="their-workers"))
    made = Gateway(world)
    yield made
    made.close()


def acted_upon(gateway: Gateway) -> list[str]:
    """The nodes on which anything is active or a case is open."""
    keys = [KEY, replace_node(NEIGHBOUR, "their-node")]
    states = [gateway.world.node(key) for key in keys]
    return [state.key.stream for state in states if list(state.active()) or state.case]


def replace_node(cluster: str, node: str):
    return KEY._replace(cluster=cluster, node=node)


def alert(**others: object) -> bytes:
    return json.dumps({**json.loads(ALERT), **others}).encode()


def test_what_its_sender_signed_reaches_the_node_that_it_names(gateway: Gateway) -> None:
    assert gateway.post(alert()) == (202, "")
    assert gateway.let_ingest_run() == []
    assert acted_upon(gateway) == [KEY.stream]


def test_a_record_forged_for_a_neighbour_is_refused_by_whichever_name(gateway: Gateway) -> None:
    theirs = gateway.world.node(replace_node(NEIGHBOUR, "their-node")).incarnation
    assert theirs is not None
    for name in ("their-node", theirs.instance_id, f"hyperpod-{theirs.instance_id}"):
        assert gateway.post(alert(node=name, cluster=NEIGHBOUR)) == (202, "")
        assert gateway.let_ingest_run() == ["unknown_node"]
    assert acted_upon(gateway) == []


def test_a_cluster_that_nobody_registered_is_refused(gateway: Gateway) -> None:
    assert gateway.post(alert(), sender="forgotten") == (202, "")
    assert gateway.let_ingest_run() == ["unknown_cluster"]
    assert acted_upon(gateway) == []


def test_a_post_that_is_replayed_is_refused(gateway: Gateway) -> None:
    gateway.at = int(gateway.world.now.timestamp())
    assert gateway.post(alert()) == (202, "")
    assert gateway.post(alert())[0] == 409
    assert len(gateway.world.ports.queue.messages) == 1


@pytest.mark.parametrize(
    ("body", "sender", "secret", "status"),
    [
        (alert(), "prometheus", "a secret that somebody guessed", 401),
        (alert(), "nobody", SECRET, 401),
        (b"x" * 10_000_000, "prometheus", SECRET, 413),
    ],
    ids=["wrong signature", "unknown sender", "ten megabytes"],
)
def test_what_is_not_proven_or_too_much_is_refused_with_a_reason(
    gateway: Gateway, body: bytes, sender: str, secret: str, status: int
) -> None:
    answered, told = gateway.post(body, sender, secret)
    assert answered == status
    assert told
    assert gateway.world.ports.queue.messages == []
    assert acted_upon(gateway) == []
