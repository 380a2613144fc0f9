"""Runs probe programs and file reads that may hang, without blocking the main loop."""

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

MAX_OUTPUT_BYTES = 2 * 1024 * 1024
MAX_ERROR_BYTES = 2048
_PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = 1031
_CHUNK_BYTES = 256 * 1024


class Outcome(StrEnum):
    """How a probe ended. HUNG: no result in time. ABSENT: no program, files or exporter to read."""

    DONE = "done"
    FAILED = "failed"
    CRASHED = "crashed"
    OVERSIZED = "oversized"
    HUNG = "hung"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe: its outcome, its output, and the error text of the program or of the agent.

    A probe may run several programs. `incomplete` means that some of them succeeded and some failed: `output` is the
    valid output of those that succeeded. `outcome` is the first of `hung`, `crashed`, `oversized` and `failed` that
    occurred.
    """

    outcome: Outcome
    output: bytes = b""
    error_text: str = ""
    incomplete: bool = False


class RunningProbe(Protocol):
    """A probe that has started: the agent polls it for a result, and kills it after its timeout."""

    def poll(self) -> ProbeResult | None:
        """Return the result of the probe, or None while the probe runs. Does not wait for the probe."""

    def kill(self) -> bool:
        """Try to kill the probe. Returns False if the probe still runs, for example in a blocked driver call."""


class ChildProcess:
    """Runs a program in its own process group, and reads up to 2 MiB of its output during the run."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._output = bytearray()
        self._errors = bytearray()
        self._process = subprocess.Popen(  # noqa: S603 - fixed programs, no shell
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
        )
        for pipe in (self._process.stdout, self._process.stderr):
            os.set_blocking(_descriptor(pipe), False)
        with suppress(OSError):
            import fcntl

            fcntl.fcntl(_descriptor(self._process.stdout), _SET_PIPE_SIZE, _PIPE_BYTES)

    def poll(self) -> ProbeResult | None:
        """Read the available output. Returns the result of the program, or None while the program runs.

        The result is available when the program has exited, or has written more than 2 MiB. A child process that the
        program left behind does not delay the result, even if it keeps the output pipes open.
        """
        status = self._process.poll()
        _drain(self._process.stdout, self._output, MAX_OUTPUT_BYTES + 1)
        _drain(self._process.stderr, self._errors, MAX_ERROR_BYTES)
        error_text = self._errors.decode("utf-8", "replace").strip()
        if len(self._output) > MAX_OUTPUT_BYTES:
            self.kill()
            return ProbeResult(Outcome.OVERSIZED, bytes(self._output[:MAX_ERROR_BYTES]), error_text)
        if status is None:
            return None
        self._close()
        output = bytes(self._output)
        if status < 0:
            return ProbeResult(Outcome.CRASHED, output, error_text or f"killed by signal {-status}")
        if status:
            return ProbeResult(Outcome.FAILED, output, error_text or f"exit code {status}")
        return ProbeResult(Outcome.DONE, output, error_text)

    def kill(self) -> bool:
        """Kill the process group. Returns False if the program still runs after 0.2 seconds.

        A program that is blocked in the driver exits only when the driver call returns.
        """
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


class BackgroundRead:
    """Reads files or a metrics page in a daemon thread, which the agent abandons if the read hangs."""

    def __init__(self, function: Callable[[], bytes]) -> None:
        self._result: ProbeResult | None = None
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True, name="probe")
        self._thread.start()

    def poll(self) -> ProbeResult | None:
        """Return the result of the read, or None while the read runs. Never blocks."""
        return self._result

    def kill(self) -> bool:
        """Return whether the thread has ended: a blocked thread cannot be killed, only abandoned."""
        return not self._thread.is_alive()

    def _run(self, function: Callable[[], bytes]) -> None:
        try:
            output = function()
        except FileNotFoundError:
            self._result = ProbeResult(Outcome.ABSENT)
        except TimeoutError as error:
            self._result = ProbeResult(Outcome.HUNG, error_text=str(error)[:MAX_ERROR_BYTES])
        except (OSError, ValueError) as error:
            self._result = ProbeResult(Outcome.FAILED, error_text=str(error)[:MAX_ERROR_BYTES])
        else:
            outcome = Outcome.OVERSIZED if len(output) > MAX_OUTPUT_BYTES else Outcome.DONE
            self._result = ProbeResult(outcome, output[:MAX_OUTPUT_BYTES])


def start_process(argv: Sequence[str]) -> RunningProbe | ProbeResult:
    """Start a program as a running probe; a missing program or a failed start is the result itself."""
    try:
        return ChildProcess(argv)
    except FileNotFoundError:
        return ProbeResult(Outcome.ABSENT)
    except OSError as error:
        return ProbeResult(Outcome.FAILED, error_text=str(error))


def _descriptor(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


def _drain(pipe: IO[bytes] | None, into: bytearray, max_bytes: int) -> None:
    if pipe is None or pipe.closed:
        return
    with suppress(BlockingIOError, OSError):
        while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
            into += chunk[: max(max_bytes - len(into), 0)]
            if len(into) >= max_bytes > MAX_ERROR_BYTES:
                return
