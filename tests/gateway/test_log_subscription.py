"""Log subscription: a batch becomes one record; an invalid batch is refused with a reason."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.serve.entrypoints.intake import intake
from tests.gateway.requests import HMA, IntakeClient, batch
from tests.sim.fakes import raise_once


@pytest.fixture
def client():
    return IntakeClient()


def test_the_hyperpod_agent_log_is_recorded_on_the_node_of_its_log_stream(client):
    instance = client.world.node().incarnation.instance_id
    taken = intake(batch(f"SagemakerHealthMonitoringAgent/gpu-workers/{instance}", HMA), client.world.app)
    assert taken["record_id"].startswith("log-")
    assert client.outcomes() == [Outcome.RECORDED]
    assert client.world.node().conditions


def test_a_batch_that_is_delivered_twice_is_one_record(client):
    instance = client.world.node().incarnation.instance_id
    event = batch(f"SagemakerHealthMonitoringAgent/gpu-workers/{instance}", HMA)
    assert intake(event, client.world.app) == intake(event, client.world.app)
    assert client.outcomes() == [Outcome.RECORDED]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (batch("some/stream", HMA), {"refused": "unknown_stream"}),
        ({"awslogs": {"data": "?"}}, {"refused": "bad_body"}),
        ({"awslogs": {"data": base64.b64encode(b"plain").decode()}}, {"refused": "bad_body"}),
        ({"awslogs": {"data": base64.b64encode(gzip.compress(b"[1]")).decode()}}, {"refused": "bad_body"}),
        ({"awslogs": {}}, {"refused": "bad_body"}),
        ({"awslogs": None}, {"refused": "bad_body"}),
        (batch("i-0aaaaaaaaaaaaaaa1", logEvents={"a": 1}), {"refused": "bad_body"}),
        (batch("x", messageType="CONTROL_MESSAGE"), {"record_id": None}),
    ],
)
def test_an_invalid_or_empty_batch_is_answered_without_an_error_and_not_queued(client, event, answer):
    assert intake(event, client.world.app) == answer
    assert client.received() == []


def test_a_batch_that_unpacks_to_too_much_is_refused_and_not_queued(client):
    data = base64.b64encode(gzip.compress(b"0" * 17_000_000)).decode()
    assert intake({"awslogs": {"data": data}}, client.world.app) == {"refused": "too_large"}
    assert client.received() == []


def test_a_batch_that_the_queue_refused_raises_transient(client):
    client.world.ports.seam.before = raise_once(("queue.send", Transient("throttled")))
    with pytest.raises(Transient):
        intake(batch("SagemakerHealthMonitoringAgent/g/i-0aaaaaaaaaaaaaaa1", HMA), client.world.app)


def test_a_captured_batch_gives_the_same_faults_as_decoded_directly(client, shared):
    capture = (shared / "samples" / "cloudwatch-subscription__hma-gzip-base64-envelope.json").read_bytes()
    intake(json.loads(capture), client.world.app)
    (message,) = [decode_message(one.body) for one in client.received()]
    assert message.body is not None
    direct = registry.decode("hyperpod-agent-log", capture)
    assert registry.decode(message.source, message.body) == direct
    assert direct
