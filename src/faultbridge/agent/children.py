"""Children: programs and reads that may hang, crash or say too much, each with an end that is certain."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, Protocol

MAX_OUTPUT = 2 * 1024 * 1024
MAX_COMPLAINT = 2048
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
_CHUNK = 256 * 1024


class How(StrEnum):
    """How a look ended."""

    DONE = "done"
    FAILED = "failed"
    CRASHED = "crashed"
    OVERSIZED = "oversized"
    HUNG = "hung"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a look: its output, and what it complained of."""

    how: How
    output: bytes = b""
    complaint: str = ""


class Running(Protocol):
    """A look under way."""

    def poll(self) -> Ended | None:
        """Return how it ended, or None while it runs; never waits."""
        ...

    def kill(self) -> bool:
        """End it by force; False while it does not even die."""
        ...


class Child:
    """A program in a group of its own, its output read as it comes and never beyond a cap."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._output = bytearray()
        self._complaint = bytearray()
        self._process = subprocess.Popen(  # noqa: S603 - fixed programs, no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )
        for pipe in (self._process.stdout, self._process.stderr):
            os.set_blocking(_number(pipe), False)
        with suppress(OSError):
            import fcntl

            fcntl.fcntl(_number(self._process.stdout), _SET_PIPE_SIZE, _PIPE_BYTES)

    def poll(self) -> Ended | None:
        """Read what is there; done when the program ended, whatever it left behind holds its pipes."""
        status = self._process.poll()
        _drain(self._process.stdout, self._output, MAX_OUTPUT + 1)
        _drain(self._process.stderr, self._complaint, MAX_COMPLAINT)
        complaint = self._complaint.decode("utf-8", "replace").strip()
        if len(self._output) > MAX_OUTPUT:
            self.kill()
            return Ended(How.OVERSIZED, bytes(self._output[:MAX_COMPLAINT]), complaint)
        if status is None:
            return None
        self._close()
        output = bytes(self._output)
        if status < 0:
            return Ended(How.CRASHED, output, complaint or f"ended by signal {-status}")
        return Ended(How.FAILED if status else How.DONE, output, complaint or (f"exit code {status}" if status else ""))

    def kill(self) -> bool:
        """Kill the whole group; a program that hangs within the driver stays until that lets go of it."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.2)
        return self._process.poll() is not None

    def _close(self) -> None:
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class Read:
    """A function that reads something which may hang, in a thread that can be left behind."""

    def __init__(self, function: Callable[[], bytes]) -> None:
        self._ended: Ended | None = None
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True, name="look")
        self._thread.start()

    def poll(self) -> Ended | None:
        """Return what the function returned, as soon as it has."""
        return self._ended

    def kill(self) -> bool:
        """Leave the thread behind; it is gone when the read lets go of it."""
        return not self._thread.is_alive()

    def _run(self, function: Callable[[], bytes]) -> None:
        try:
            output = function()
        except FileNotFoundError:
            self._ended = Ended(How.ABSENT)
        except (OSError, ValueError) as error:
            self._ended = Ended(How.FAILED, complaint=str(error)[:MAX_COMPLAINT])
        else:
            self._ended = Ended(How.OVERSIZED if len(output) > MAX_OUTPUT else How.DONE, output[:MAX_OUTPUT])


def start(argv: Sequence[str]) -> Running | Ended:
    """Start a program; a missing one has ended already, as absent."""
    try:
        return Child(argv)
    except FileNotFoundError:
        return Ended(How.ABSENT)
    except OSError as error:
        return Ended(How.FAILED, complaint=str(error))


def _number(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


def _drain(pipe: IO[bytes] | None, into: bytearray, most: int) -> None:
    if pipe is None or pipe.closed:
        return
    with suppress(BlockingIOError, OSError):
        while chunk := os.read(pipe.fileno(), _CHUNK):
            into += chunk[: max(most - len(into), 0)]
            if len(into) >= most > MAX_COMPLAINT:
                return
