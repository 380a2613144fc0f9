"""The doors beside the queue: what is proven goes through as it is, everything else is refused with a reason."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import timedelta

import pytest

from faultbridge.api.problems import MEDIA_TYPE
from faultbridge.decoders import registry
from faultbridge.domain.records import Outcome
from faultbridge.entrypoints.intake import intake
from faultbridge.errors import Misconfigured, Transient
from faultbridge.gateway.signature import sign
from faultbridge.gateway.webhooks import MAX_BYTES, READ_AGAIN, senders_of
from faultbridge.ingest.record_reader import Delivery
from faultbridge.simulation.fakes import raise_once
from faultbridge.storage.wire.message import decode_message
from tests.builders import KEY
from tests.world import World

SECRET, NEXT_SECRET = "a secret of many characters", "another secret of many characters"
ALERT = json.dumps(
    {
        "kind": "fault",
        "code": "xid.79",
        "component": {"type": "gpu", "pci": "0000:c1:00"},
        "message": "GPU has fallen off the bus.",
        "observed_at": "2026-02-03T11:59:00.000Z",
        "node": KEY.node,
    }
)


class Doors:
    """An installation with one sender, and requests as the gateway hands them over."""

    def __init__(self) -> None:
        self.world = World()
        self.senders = {"prometheus": {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]}}
        self.world.ports.senders = self.senders

    def post(self, body=ALERT, *, sender="prometheus", source="faultbridge", secret=SECRET, ago=0, **others):
        raw = body.encode() if isinstance(body, str) else body
        at = str(int(self.world.now.timestamp()) - ago)
        headers = {"X-Faultbridge-Timestamp": at, "X-Faultbridge-Signature": sign(at, raw, secret.encode())}
        event = {
            "version": "2.0",
            "headers": headers | others.get("headers", {}),
            "pathParameters": {"sender": sender, "source": source},
            "body": base64.b64encode(raw).decode(),
            "isBase64Encoded": True,
        }
        return intake(event, self.world.app)

    def received(self):
        found = []
        while batch := self.world.ports.queue.receive():
            for one in batch:
                found.append(one)
                self.world.ports.queue.delete(one)
        return found

    def outcomes(self):
        deliveries = [Delivery(f"m-{n}", one.body, self.world.now) for n, one in enumerate(self.received())]
        return self.world.outcomes(*deliveries)


@pytest.fixture
def doors():
    return Doors()


def reason(answer) -> tuple[int, str]:
    return answer["statusCode"], json.loads(answer["body"])["type"].rpartition(":")[2]


def test_a_signed_post_becomes_the_same_fault_as_its_body_decoded(doors):
    assert doors.post()["statusCode"] == 202
    (message,) = [decode_message(one.body) for one in doors.received()]
    assert (message.cluster, message.source, message.body) == (KEY.cluster, "faultbridge", ALERT.encode())
    assert registry.decode(message.source, message.body) == registry.decode("faultbridge", ALERT.encode())


def test_a_signed_post_reaches_the_node_that_it_names(doors):
    doors.post()
    assert doors.outcomes() == [Outcome.RECORDED]
    assert doors.world.node().conditions


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"secret": NEXT_SECRET}, (401, "unauthorised")),
        ({"sender": "nobody"}, (401, "unauthorised")),
        ({"ago": 301}, (401, "unauthorised")),
        ({"ago": -301}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "now"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "9" * 40}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "\u0663"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Signature": ""}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Signature": "\u00e9"}}, (401, "unauthorised")),
        ({"source": "grafana"}, (403, "forbidden")),
        ({"body": b"x" * 10_000_000}, (413, "too_large")),
        ({"body": b"x" * (MAX_BYTES + 1)}, (413, "too_large")),
        ({"body": b"  "}, (400, "empty")),
    ],
    ids=str,
)
def test_what_is_not_proven_or_not_allowed_is_refused_and_nothing_is_queued(doors, request_, answer):
    refused = doors.post(**request_)
    assert reason(refused) == answer
    assert refused["headers"]["Content-Type"] == MEDIA_TYPE
    assert doors.received() == []


def test_a_post_signed_for_another_body_is_refused(doors):
    at = str(int(doors.world.now.timestamp()))
    other = {"X-Faultbridge-Signature": sign(at, b"another body", SECRET.encode())}
    assert reason(doors.post(headers=other)) == (401, "unauthorised")


def test_a_replayed_post_is_refused_and_counts_once(doors):
    doors.post()
    doors.world.ports.clock.advance(timedelta(seconds=20))
    assert reason(doors.post(ago=20)) == (409, "replayed")
    assert len(doors.received()) == 1


def test_a_post_that_the_queue_did_not_take_may_be_sent_again(doors):
    doors.world.ports.seam.before = raise_once(("queue.send", Transient("throttled")))
    assert reason(doors.post()) == (503, "try_again")
    assert doors.post()["statusCode"] == 202
    assert len(doors.received()) == 1


def test_a_secret_is_changed_without_a_gap(doors):
    doors.post()
    doors.senders["prometheus"]["secrets"] = [NEXT_SECRET, SECRET]
    doors.world.ports.clock.advance(READ_AGAIN)
    assert doors.post(secret=NEXT_SECRET)["statusCode"] == 202
    assert doors.post(ago=1)["statusCode"] == 202
    doors.senders["prometheus"]["secrets"] = [NEXT_SECRET]
    doors.world.ports.clock.advance(READ_AGAIN)
    assert reason(doors.post()) == (401, "unauthorised")


def test_without_a_document_of_senders_nobody_may_post():
    world = World()
    event = {"pathParameters": {"sender": "a", "source": "faultbridge"}, "body": "x", "headers": {}}
    assert reason(intake(event, world.app)) == (401, "unauthorised")


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b'{"a": {}}',
        b'{"a": {"cluster": "c", "sources": ["x"], "secrets": ["0123456789abcdef"]}}',
        b'{"a": {"cluster": "c", "sources": ["gpud"], "secrets": ["short"]}}',
        b'{"a": {"cluster": "c/d", "sources": ["gpud"], "secrets": ["0123456789abcdef"]}}',
    ],
)
def test_a_document_of_senders_that_is_wrong_is_told_to_an_operator_without_its_secrets(document):
    with pytest.raises(Misconfigured) as told:
        senders_of(document)
    assert "0123456789abcdef" not in str(told.value)
    assert "short" not in str(told.value)


HMA = {"HealthMonitoringAgentDetectionEvent": "HealthEvent", "level": "info", "msg": "NPD caught event: {}"} | {
    "details: ": {
        "severity": "warn",
        "timestamp": "2026-02-03T11:59:00Z",
        "reason": "XidHardwareFailure",
        "message": "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus.",
    }
}


def batch(stream: str, *messages: object, **others: object) -> dict:
    events = [{"id": str(n), "timestamp": 1770119940000, "message": json.dumps(one)} for n, one in enumerate(messages)]
    whole = {
        "messageType": "DATA_MESSAGE",
        "logGroup": "/aws/sagemaker/Clusters/hyperpod/abc",
        "logStream": stream,
        "logEvents": events,
    } | others
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(whole).encode())).decode()}}


def test_the_agent_log_of_hyperpod_reaches_the_node_that_its_stream_is_named_after(doors):
    instance = doors.world.node().incarnation.instance_id
    taken = intake(batch(f"SagemakerHealthMonitoringAgent/gpu-workers/{instance}", HMA), doors.world.app)
    assert taken["record_id"].startswith("log-")
    assert doors.outcomes() == [Outcome.RECORDED]
    assert doors.world.node().conditions


def test_a_batch_that_comes_twice_is_one_record(doors):
    instance = doors.world.node().incarnation.instance_id
    event = batch(f"SagemakerHealthMonitoringAgent/gpu-workers/{instance}", HMA)
    assert intake(event, doors.world.app) == intake(event, doors.world.app)
    assert doors.outcomes() == [Outcome.RECORDED]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        (batch("some/stream", HMA), {"refused": "unknown_stream"}),
        ({"awslogs": {"data": "?"}}, {"refused": "bad_body"}),
        ({"awslogs": {"data": base64.b64encode(b"plain").decode()}}, {"refused": "bad_body"}),
        ({"awslogs": {}}, {"refused": "bad_body"}),
        (batch("x", messageType="CONTROL_MESSAGE"), {"record_id": None}),
        ({"awslogs": {"data": base64.b64encode(gzip.compress(b"0" * 17_000_000)).decode()}}, {"refused": "too_large"}),
    ],
)
def test_a_batch_of_logs_that_is_none_is_refused_and_not_delivered_for_ever(doors, event, answer):
    assert intake(event, doors.world.app) == answer
    assert doors.received() == []


def test_logs_that_the_queue_did_not_take_are_delivered_again(doors):
    doors.world.ports.seam.before = raise_once(("queue.send", Transient("throttled")))
    with pytest.raises(Transient):
        intake(batch("SagemakerHealthMonitoringAgent/g/i-0aaaaaaaaaaaaaaa1", HMA), doors.world.app)


def test_a_captured_subscription_gives_the_same_faults_through_the_door_as_decoded(doors, shared):
    capture = (shared / "samples" / "cloudwatch-subscription__hma-gzip-base64-envelope.json").read_bytes()
    intake(json.loads(capture), doors.world.app)
    (message,) = [decode_message(one.body) for one in doors.received()]
    assert message.body is not None
    direct = registry.decode("hyperpod-agent-log", capture)
    assert registry.decode(message.source, message.body) == direct
    assert direct


@pytest.mark.parametrize(
    ("source", "pattern"),
    [("alertmanager", "alertmanager-v4__*"), ("gpud", "gpud__v1-*"), ("grafana", "grafana-webhook__*")],
)
def test_captures_give_the_same_faults_through_the_webhook_as_decoded(doors, shared, source, pattern):
    doors.senders["prometheus"]["sources"] = [source]
    captures = sorted((shared / "samples").glob(pattern))
    assert captures
    for capture in captures:
        body = capture.read_bytes()
        assert doors.post(body, source=source)["statusCode"] == 202
        (message,) = [decode_message(one.body) for one in doors.received()]
        assert registry.decode(source, message.body) == registry.decode(source, body)
