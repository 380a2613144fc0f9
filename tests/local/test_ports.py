"""The usual ports when they are free, others when they are not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from faultbridge.local import ports
from faultbridge.local.ports import Ports


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind((ports.LOOPBACK, 0))
        listening.listen()
        yield listening


def number(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def test_a_port_that_somebody_listens_on_is_not_free(listener: socket.socket) -> None:
    assert not ports.is_free(number(listener))


def test_a_port_is_free_again_when_its_listener_is_gone(listener: socket.socket) -> None:
    port = number(listener)
    listener.close()
    assert ports.is_free(port)


def test_free_usual_ports_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ports.choose(usual=False)
    monkeypatch.setattr(ports, "USUAL", usual)
    assert ports.choose() == usual


def test_a_usual_port_that_is_taken_is_replaced_and_the_other_kept(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    usual = Ports(event_plane=number(listener), compute_plane=ports.choose(usual=False).compute_plane)
    monkeypatch.setattr(ports, "USUAL", usual)
    chosen = ports.choose()
    assert chosen.event_plane != usual.event_plane
    assert chosen.compute_plane == usual.compute_plane


def test_two_free_ports_are_two_different_ports() -> None:
    for _ in range(50):
        chosen = ports.choose(usual=False)
        assert chosen.event_plane != chosen.compute_plane
