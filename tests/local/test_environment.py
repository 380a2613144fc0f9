"""The environment of the stack's programs, and the lines of their logs."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from faultbridge.local import environment
from faultbridge.local.environment import Ports
from faultbridge.local.gaps.lambdas import MARKER, read_to_marker


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


@dataclass
class LateLines:
    """A queue of lines; None stands for a time in which no line arrives."""

    lines: list[str | None]

    def get(self, timeout: float) -> str:
        """Return the next line, or raise Empty after a time without one."""
        assert timeout > 0
        line = self.lines.pop(0) if self.lines else None
        if line is None:
            raise queue.Empty
        return line


@dataclass
class Process:
    """A process that is alive until it was asked some times."""

    alive_for: int

    def poll(self) -> int | None:
        """Return the exit code, None while it is alive."""
        self.alive_for -= 1
        return None if self.alive_for >= 0 else 1


@dataclass
class Worker:
    """A worker of the emulator."""

    _stderr_queue: LateLines
    _proc: Process | None = field(default_factory=lambda: Process(100))


def worker(lines: Iterable[str | None], alive_for: int = 100) -> Worker:
    return Worker(LateLines(list(lines)), Process(alive_for))


def test_the_lines_of_a_call_end_at_its_marker() -> None:
    calls = worker(["a", f"b{MARKER}", "c", MARKER])
    assert (read_to_marker(calls), read_to_marker(calls)) == ("a\nb", "c")


def test_lines_that_arrive_late_belong_to_their_call_while_the_worker_is_alive() -> None:
    calls = worker([None, None, "a", None, MARKER, "b", MARKER])
    assert (read_to_marker(calls), read_to_marker(calls)) == ("a", "b")


def test_a_worker_that_ended_sends_no_marker() -> None:
    assert read_to_marker(worker(["a", None, None], alive_for=1)) == "a"
