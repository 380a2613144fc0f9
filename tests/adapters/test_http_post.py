"""Posts to pagers, chats and webhooks: an answer costs at most the limits of time and length."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from faultbridge.adapters import http_post
from faultbridge.adapters.http_post import LIMITS, post_json
from faultbridge.model.errors import Transient
from faultbridge.model.values import replace
from tests.adapters.certificates import certificate
from tests.adapters.listener import drip, listening, reply


def post(port: int) -> None:
    post_json("the webhook", f"http://127.0.0.1:{port}/x", b"{}", page="event-1")


@pytest.mark.parametrize(
    "start", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"]
)
def test_an_answer_that_never_ends_is_ended_by_the_time_limit(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "LIMITS", replace(LIMITS, total=0.5))
    with listening(lambda one: drip(one, start)) as port, pytest.raises(Transient, match="cannot be reached"):
        post(port)


def test_only_the_start_of_a_long_answer_is_read() -> None:
    with listening(reply(b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 50_000_000)) as port:
        post(port)


def test_a_service_with_an_unknown_certificate_receives_nothing(tmp_path: Path) -> None:
    received: list[bytes] = []

    def keep(connection: socket.socket) -> None:
        received.append(connection.recv(65536))

    context, _ = certificate(tmp_path, "localhost")
    with listening(keep, context) as port, pytest.raises(Transient, match="certificate verify failed"):
        post_json("the webhook", f"https://localhost:{port}/x", b"{}", page="event-1")
    assert received == []
