"""The lines that a function prints belong to the call that printed them, on a busy host too."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from dataclasses import dataclass, field

from faultbridge.local.gaps.lambda_workers import MARKER, read_to_marker


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
