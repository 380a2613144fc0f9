"""Senders that cannot sign prove themselves with a bearer token, or with their name and a password."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest

from faultbridge.model.records import Outcome
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.serve.entrypoints.intake import wire_webhooks
from faultbridge.serve.gateway.webhooks import REFUSAL_TTL, REPEAT_WINDOW
from tests.builders import KEY
from tests.gateway.requests import NEXT_SECRET, SECRET, IntakeClient

UNAUTHORISED = (401, "unauthorised")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


BEARER, BASIC = f"Bearer {SECRET}", basic("prometheus", SECRET)


@pytest.fixture
def client() -> IntakeClient:
    client = IntakeClient()
    known = {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]}
    client.senders["prometheus"] = known | {"proof": "bearer"}
    client.senders["grafana"] = known | {"proof": "basic"}
    client.senders["signer"] = known
    return client


def reason(answer) -> tuple[int, str]:
    return answer["statusCode"], json.loads(answer["body"])["type"].rpartition(":")[2]


@pytest.mark.parametrize(
    ("sender", "authorization"),
    [
        ("prometheus", BEARER),
        ("prometheus", f"bearer  {SECRET} "),
        ("grafana", basic("grafana", SECRET)),
        ("grafana", basic("grafana", SECRET).replace("Basic", "BASIC")),
    ],
)
def test_a_post_with_the_credentials_of_its_sender_is_recorded(client, sender, authorization):
    assert client.post(sender=sender, authorization=authorization)["statusCode"] == 202
    assert client.outcomes() == [Outcome.RECORDED]


@pytest.mark.parametrize(
    ("sender", "authorization"),
    [
        ("prometheus", f"Bearer {NEXT_SECRET}"),
        ("prometheus", "Bearer "),
        ("prometheus", "Bearer"),
        ("prometheus", "\ud800"),
        ("prometheus", SECRET),
        ("prometheus", f"Token {SECRET}"),
        ("prometheus", BASIC),
        ("prometheus", f"Bearer {SECRET}x"),
        ("grafana", basic("prometheus", SECRET)),
        ("grafana", basic("grafana", NEXT_SECRET)),
        ("grafana", "Basic not base64"),
        ("grafana", "Basic \ud800"),
        ("grafana", BEARER),
        ("signer", BEARER),
        ("signer", basic("signer", SECRET)),
        ("unknown", BEARER),
        ("-", basic("-", "")),
    ],
)
def test_other_credentials_are_refused_with_one_answer_for_every_sender(client, sender, authorization):
    refused = client.post(sender=sender, authorization=authorization)
    assert reason(refused) == UNAUTHORISED
    assert refused["body"] == client.post(sender="nobody", authorization=authorization)["body"]
    assert SECRET not in refused["body"]
    assert client.received() == []


@pytest.mark.parametrize("sender", ["prometheus", "grafana"])
def test_a_signature_with_the_secret_of_a_sender_that_uses_credentials_is_refused(client, sender):
    assert reason(client.post(sender=sender)) == UNAUTHORISED


def test_credentials_give_access_to_the_sources_of_their_sender_only(client):
    assert reason(client.post(source="gpud", authorization=BEARER)) == (403, "forbidden")
    assert reason(client.post(body=b" ", authorization=BEARER)) == (400, "empty")
    assert reason(client.post(body=b"x" * 2_000_000, authorization=BEARER)) == (413, "too_large")


def test_a_retry_of_the_same_body_is_accepted_and_queued_once(client):
    first = client.post(authorization=BEARER)
    client.world.ports.clock.advance(timedelta(seconds=20))
    assert client.post(authorization=BEARER) == first
    (message,) = [decode_message(one.body) for one in client.received()]
    assert message.record_id in first["body"]


def test_a_repeated_notification_after_hours_is_a_record_of_its_own(client):
    first = client.post(authorization=BEARER)
    client.world.ports.clock.advance(REPEAT_WINDOW)
    assert client.post(authorization=BEARER)["body"] != first["body"]
    assert len(client.received()) == 2


def test_equal_bodies_of_two_senders_are_two_records(client):
    first = client.post(authorization=BEARER)
    second = client.post(sender="grafana", authorization=basic("grafana", SECRET))
    assert (first["statusCode"], second["statusCode"]) == (202, 202)
    assert len(client.received()) == 2


def test_a_new_sender_and_a_new_secret_work_within_half_a_minute(client):
    client.post(authorization=BEARER)
    client.senders["new"] = client.senders["prometheus"] | {"secrets": [NEXT_SECRET]}
    assert reason(client.post(sender="new", authorization=f"Bearer {NEXT_SECRET}")) == UNAUTHORISED
    client.world.ports.clock.advance(REFUSAL_TTL)
    assert client.post(sender="new", authorization=f"Bearer {NEXT_SECRET}")["statusCode"] == 202


def test_refused_posts_read_the_senders_at_most_twice_a_minute(client):
    reads = []
    webhooks = wire_webhooks(client.world.app)
    read = webhooks.read_senders
    webhooks.read_senders = lambda: reads.append(1) or read()
    for _ in range(60):
        client.post(sender="unknown", authorization=BEARER)
        client.world.ports.clock.advance(timedelta(seconds=1))
    assert len(reads) == 2
