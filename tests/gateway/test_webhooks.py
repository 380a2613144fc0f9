"""Webhooks: a signed post is queued unchanged; every other post is refused with a reason."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode import registry
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.serve.api.problems import MEDIA_TYPE
from faultbridge.serve.entrypoints.intake import intake
from faultbridge.serve.gateway.webhooks import MAX_BYTES, SENDERS_TTL, body_content, senders_of, sign
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.gateway.requests import ALERT, NEXT_SECRET, SECRET, IntakeClient, signed_headers
from tests.sim.fakes import raise_once
from tests.world import World


@pytest.fixture
def client():
    return IntakeClient()


def reason(answer) -> tuple[int, str]:
    return answer["statusCode"], json.loads(answer["body"])["type"].rpartition(":")[2]


def test_the_body_of_a_signed_post_is_queued_unchanged(client):
    assert client.post()["statusCode"] == 202
    (message,) = [decode_message(one.body) for one in client.received()]
    assert (message.cluster, message.source, message.body) == (KEY.cluster, "faultbridge", ALERT.encode())
    assert registry.decode(message.source, message.body) == registry.decode("faultbridge", ALERT.encode())


def test_a_signed_post_is_recorded_on_the_node_that_it_names(client):
    client.post()
    assert client.outcomes() == [Outcome.RECORDED]
    assert client.world.node().conditions


@pytest.mark.parametrize("body", [ALERT, ALERT + " " * (300 * 1024)], ids=["in the message", "in the object store"])
def test_what_a_webhook_reports_is_a_claim_of_its_sender_although_our_own_function_delivers_it(body):
    client = IntakeClient({"FAULTBRIDGE_SENDER_PROOF": "required", "FAULTBRIDGE_OWN_SENDERS": "AROAINTAKE"})
    client.post(body)
    delivered = [
        Delivery(f"m-{n}", one.body, client.world.now, sender="AROAINTAKE:faultbridge-intake")
        for n, one in enumerate(client.received())
    ]
    assert client.world.outcomes(*delivered) == [Outcome.RECORDED]
    (condition,) = client.world.node().conditions.values()
    assert condition.claimed


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"secret": NEXT_SECRET}, (401, "unauthorised")),
        ({"sender": "unknown"}, (401, "unauthorised")),
        ({"ago": 301}, (401, "unauthorised")),
        ({"ago": -301}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "now"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "9" * 40}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "\u0663"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "253402300800"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Timestamp": "\ud800"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Signature": ""}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Signature": "\u00e9"}}, (401, "unauthorised")),
        ({"headers": {"X-Faultbridge-Signature": "\ud800"}}, (401, "unauthorised")),
        ({"method": "PUT"}, (401, "unauthorised")),
        ({"source": "grafana"}, (403, "forbidden")),
        ({"body": b"x" * (MAX_BYTES + 1)}, (413, "too_large")),
        ({"body": b"  "}, (400, "empty")),
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_invalid_or_forbidden_post_is_refused_and_logged_and_not_queued(client, request_, answer, caplog):
    refused = client.post(**request_)
    assert reason(refused) == answer
    (logged,) = [record for record in caplog.records if record.message == "webhook_refused"]
    assert logged.reason.startswith(f"{answer[1]}: ")
    assert logged.sender == request_.get("sender", "prometheus")
    assert refused["headers"]["Content-Type"] == MEDIA_TYPE
    assert client.received() == []


def test_a_post_signed_for_another_body_is_refused(client):
    at = str(int(client.world.now.timestamp()))
    other = signed_headers(at, "/intake/prometheus/faultbridge", b"another body", SECRET)
    assert reason(client.post(headers=other)) == (401, "unauthorised")


def test_a_post_signed_for_another_source_or_sender_is_refused(client):
    client.senders["prometheus"]["sources"] = ["faultbridge", "gpud"]
    at = str(int(client.world.now.timestamp()))
    for path in ("/intake/prometheus/gpud", "/intake/grafana/faultbridge"):
        other = signed_headers(at, path, ALERT.encode(), SECRET)
        assert reason(client.post(headers=other)) == (401, "unauthorised")
    assert client.received() == []


def test_a_sender_with_one_source_can_sign_the_body_alone_as_grafana_does(client):
    at = str(int(client.world.now.timestamp()))
    signed = {"X-Faultbridge-Signature": sign(body_content(at, ALERT.encode()), SECRET.encode())}
    assert reason(client.post(headers=signed)) == (401, "unauthorised")
    client.senders["prometheus"]["proof"] = "body-signature"
    client.world.ports.clock.advance(SENDERS_TTL)
    at = str(int(client.world.now.timestamp()))
    signed = {"X-Faultbridge-Signature": sign(body_content(at, ALERT.encode()), SECRET.encode())}
    assert client.post(headers=signed)["statusCode"] == 202


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=24), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ("headers", "pathParameters", "requestContext", "body", "isBase64Encoded")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANY_VALUE)), ANY_VALUE, ANY_VALUE)
def test_every_malformed_request_is_a_client_error(event, timestamp, signature):
    headers = {"x-faultbridge-timestamp": timestamp, "x-faultbridge-signature": signature}
    client = IntakeClient()
    for request in (event, {"headers": headers} | event, event | {"headers": headers}):
        assert 400 <= intake(request, client.world.app)["statusCode"] < 500


def test_a_replayed_post_is_refused_and_queued_once(client):
    client.post()
    client.world.ports.clock.advance(timedelta(seconds=20))
    assert reason(client.post(ago=20)) == (409, "replayed")
    assert len(client.received()) == 1


def test_a_post_that_the_queue_refused_can_be_sent_again(client, caplog):
    client.world.ports.seam.before = raise_once(("queue.send", Transient("throttled")))
    assert reason(client.post()) == (503, "try_again")
    assert client.post()["statusCode"] == 202
    assert len(client.received()) == 1


def test_a_secret_is_rotated_without_lost_posts(client):
    client.post()
    client.senders["prometheus"]["secrets"] = [NEXT_SECRET, SECRET]
    client.world.ports.clock.advance(SENDERS_TTL)
    assert client.post(secret=NEXT_SECRET)["statusCode"] == 202
    assert client.post(ago=1)["statusCode"] == 202
    client.senders["prometheus"]["secrets"] = [NEXT_SECRET]
    client.world.ports.clock.advance(SENDERS_TTL)
    assert reason(client.post()) == (401, "unauthorised")


def test_a_removed_secret_is_refused_after_five_minutes(client):
    client.post()
    client.senders["prometheus"]["secrets"] = [NEXT_SECRET]
    client.world.ports.clock.advance(timedelta(minutes=5))
    assert client.post()["statusCode"] == 401


def test_the_receipt_of_a_post_signed_five_minutes_ahead_expires_no_earlier_than_the_signature(client):
    accepted = json.loads(client.post(ago=-300)["body"])
    client.world.ports.clock.advance(timedelta(minutes=10))
    assert reason(client.post(ago=300)) == (409, "replayed")
    receipt = client.world.ports.table.get(keys.webhook(accepted["record_id"]))
    assert receipt["expires_at"] >= client.world.now.timestamp()
    client.world.ports.clock.advance(timedelta(seconds=1))
    assert reason(client.post(ago=301)) == (401, "unauthorised")


def test_without_configured_senders_every_post_is_refused():
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
        b'{"a": {"cluster": "c", "sources": ["gpud"], "secrets": ["0123456789abcdef"], "proof": "nothing"}}',
        b'{"a": {"cluster": "c", "sources": ["gpud", "grafana"], "secrets": ["0123456789abcdef"],'
        b' "proof": "body-signature"}}',
        b'{"a": {"cluster": "c", "sources": ["gpud"], "secrets": ["0123456789abcdef"], "proof": "body-signature"},'
        b' "b": {"cluster": "d", "sources": ["gpud"], "secrets": ["0123456789abcdef"]}}',
        b"[" * 100_000,
    ],
)
def test_an_invalid_senders_document_is_reported_without_its_secrets(document):
    with pytest.raises(Misconfigured) as raised:
        senders_of(document)
    assert "0123456789abcdef" not in str(raised.value)
    assert "short" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "pattern"),
    [("alertmanager", "alertmanager-v4__*"), ("gpud", "gpud__v1-*"), ("grafana", "grafana-webhook__*")],
)
def test_captures_through_the_webhook_give_the_same_faults_as_decoded_directly(client, shared, source, pattern):
    client.senders["prometheus"]["sources"] = [source]
    captures = sorted((shared / "samples").glob(pattern))
    assert captures
    for capture in captures:
        body = capture.read_bytes()
        assert client.post(body, source=source)["statusCode"] == 202
        (message,) = [decode_message(one.body) for one in client.received()]
        assert registry.decode(source, message.body) == registry.decode(source, body)
