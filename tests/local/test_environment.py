"""The default ports are chosen when they are free, other free ports otherwise."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from faultbridge.local import environment
from faultbridge.local.environment import Ports


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.bind((environment.LOOPBACK, 0))
        listening.listen()
        yield listening


def number(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def test_a_port_with_a_listener_is_not_free(listener: socket.socket) -> None:
    assert not environment.is_free(number(listener))


def test_a_port_is_free_after_its_listener_closes(listener: socket.socket) -> None:
    port = number(listener)
    listener.close()
    assert environment.is_free(port)


def test_free_default_ports_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    default = environment.choose_ports(prefer_default=False)
    monkeypatch.setattr(environment, "DEFAULT_PORTS", default)
    assert environment.choose_ports() == default


def test_only_an_occupied_default_port_is_replaced(monkeypatch: pytest.MonkeyPatch, listener: socket.socket) -> None:
    default = Ports(
        event_plane=number(listener), compute_plane=environment.choose_ports(prefer_default=False).compute_plane
    )
    monkeypatch.setattr(environment, "DEFAULT_PORTS", default)
    chosen = environment.choose_ports()
    assert chosen.event_plane != default.event_plane
    assert chosen.compute_plane == default.compute_plane


def test_two_free_ports_are_different() -> None:
    for _ in range(50):
        chosen = environment.choose_ports(prefer_default=False)
        assert chosen.event_plane != chosen.compute_plane
