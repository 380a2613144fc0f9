"""Webhooks over real HTTP: a loopback server replaces API Gateway and calls the function."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.errors import Transient
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import Message
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.gateway.log_subscription import Forward
from faultbridge.serve.wiring.services import wire_registration
from tests.builders import KEY, NOON
from tests.gateway.requests import ALERT, SECRET
from tests.gateway.server import Gateway
from tests.sim.fakes import FakeObjects, FakeQueue
from tests.world import World

NEIGHBOR = "train-b"
SENDERS = {
    "prometheus": {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]},
    "forgotten": {"cluster": "no-such-cluster", "sources": ["faultbridge"], "secrets": [SECRET]},
}


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    world = World()
    world.ports.senders = SENDERS
    other = ClusterConfig(NEIGHBOR, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    wire_registration(world.app).add_cluster(other)
    instance = world.ports.fleet.launch("their-workers")
    wire_registration(world.app).add_node(NEIGHBOR, NewNode("their-node", instance, group="their-workers"))
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
        (b"x" * 2_000_000, "prometheus", SECRET, 413),
    ],
    ids=["wrong signature", "unknown sender", "two megabytes"],
)
def test_an_unproven_or_too_large_post_is_refused_with_a_reason(
    gateway: Gateway, body: bytes, sender: str, secret: str, status: int
) -> None:
    answered, problem = gateway.post(body, sender, secret)
    assert answered == status
    assert problem
    assert gateway.world.ports.queue.messages == []
    assert affected_nodes(gateway) == []


def record(number: int, body: bytes = b"x") -> Message:
    return Message(f"r-{number}", "kernel-log", "train-a", NOON, body=body)


def test_records_that_the_queue_refused_raise_transient_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    class FullQueue(FakeQueue):
        def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
            return tuple(body for _, body in messages[1:])

    with pytest.raises(Transient, match="refused 2 of 3 records"):
        Forward(FullQueue(), FakeObjects()).forward([record(number) for number in range(3)])
    (logged,) = [vars(one) for one in caplog.records if one.message == "records_not_queued"]
    assert logged["first_record_id"] == "r-0"


def test_a_body_that_is_too_large_for_the_queue_is_stored_and_referenced() -> None:
    queue, objects, body = FakeQueue(), FakeObjects(), Random(1).randbytes(1_100_000)
    Forward(queue, objects).forward([record(1, body)])
    message = decode_message(queue.messages[0].body)
    assert message.body is None
    assert message.pointer is not None
    assert objects.get(message.pointer) == body
