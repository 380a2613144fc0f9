"""`faultbridge webhook` edits the secret that lists the senders, and shows each secret once."""

from __future__ import annotations

import json

import pytest

from faultbridge.cli.stack.session import Session
from faultbridge.serve.gateway.webhooks import senders_of
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.gateway.requests import IntakeClient


class StoredSenders:
    """The secret in memory."""

    def __init__(self) -> None:
        self.document = b"{}"

    def __call__(self) -> bytes:
        return self.document

    def replace(self, value: bytes) -> None:
        self.document = value


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> StoredSenders:
    senders = StoredSenders()
    monkeypatch.setattr(Session, "webhook_senders", property(lambda _session: senders))
    return senders


@pytest.fixture(autouse=True)
def _address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Session, "settings", property(lambda _session: type("Settings", (), {"api_url": "https://api"})())
    )


def add(desk: Desk, name: str = "prometheus", *more: str):
    return desk.json("webhook", "add", name, "--cluster", KEY.cluster, "--source", "alertmanager", *more)


def test_the_secret_that_add_prints_is_accepted_at_the_url_that_it_prints(desk: Desk, stored: StoredSenders) -> None:
    added = add(desk)
    assert added["urls"] == ["https://api/intake/prometheus/alertmanager"]
    client = IntakeClient()
    client.world.ports.senders = json.loads(stored.document)
    body = json.dumps({"receiver": "r", "alerts": []})
    assert client.post(body, source="alertmanager", authorization=f"Bearer {added['secret']}")["statusCode"] == 202


def test_a_secret_is_shown_once_and_is_never_listed(desk: Desk, stored: StoredSenders) -> None:
    added = add(desk)
    assert added["secret"] in stored.document.decode()
    assert desk.json("webhook", "list") == [
        {"sender": "prometheus", "cluster": KEY.cluster, "proof": "bearer", "sources": ["alertmanager"], "secrets": 1}
    ]
    assert added["secret"] not in desk("webhook", "list").out


def test_the_secret_before_a_rotation_stays_valid_until_the_next(desk: Desk, stored: StoredSenders) -> None:
    first = add(desk)["secret"]
    second = desk.json("webhook", "rotate", "prometheus")["secret"]
    assert senders_of(stored.document)["prometheus"].secrets == (second.encode(), first.encode())
    third = desk.json("webhook", "rotate", "prometheus")["secret"]
    assert senders_of(stored.document)["prometheus"].secrets == (third.encode(), second.encode())


def test_a_sender_is_replaced_only_after_a_confirmation(desk: Desk, stored: StoredSenders) -> None:
    first = add(desk)["secret"]
    ran = desk("webhook", "add", "prometheus", "--cluster", KEY.cluster, "--source", "grafana")
    assert (ran.code, "not confirmed: the secrets of prometheus become invalid" in ran.err) == (2, True)
    assert senders_of(stored.document)["prometheus"].secrets == (first.encode(),)
    second = add(desk, "prometheus", "--yes")["secret"]
    assert senders_of(stored.document)["prometheus"].secrets == (second.encode(),)


def test_a_removed_sender_is_gone_and_the_others_stay(desk: Desk, stored: StoredSenders) -> None:
    add(desk)
    add(desk, "other", "--proof", "basic")
    assert desk("webhook", "remove", "prometheus").code == 2
    assert list(senders_of(stored.document)) == ["prometheus", "other"]
    desk.json("webhook", "remove", "prometheus", "--yes")
    assert list(senders_of(stored.document)) == ["other"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("add", "p", "--cluster", "nowhere", "--source", "alertmanager"), 2, "nowhere"),
        (("add", "a b", "--cluster", KEY.cluster, "--source", "alertmanager"), 2, "invalid name"),
        (("add", "p", "--cluster", KEY.cluster, "--source", "kernel-log"), 2, "kernel-log"),
        (("rotate", "p"), 2, "unknown sender: p"),
        (("remove", "p"), 2, "unknown sender: p"),
    ],
)
def test_a_wrong_order_changes_nothing(desk: Desk, stored: StoredSenders, arguments, code: int, message: str) -> None:
    ran = desk("webhook", *arguments)
    assert ran.code == code
    assert message in ran.err
    assert stored.document == b"{}"


def test_two_sources_with_a_body_signature_are_refused_and_change_nothing(desk: Desk, stored: StoredSenders) -> None:
    ran = desk(
        "webhook", "add", "g", "--cluster", KEY.cluster, "--proof", "body-signature",
        "--source", "grafana", "--source", "gpud",
    )  # fmt: skip
    assert ran.code != 0
    assert stored.document == b"{}"
