"""Run the launcher of a job for `faultbridge job run`, and record how the job starts and ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from faultbridge.cli.errors.failures import failure_of
from faultbridge.cli.render.output import notice

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SIGNAL_EXIT = 128
"""If a signal ends a program, the exit code is this value plus the number of the signal, as in a shell."""


def run_recorded(command: Sequence[str], start: Callable[[], object], end: Callable[[str, str], object]) -> int:
    """Record the start of a job, run its command, and record its outcome; return the exit code.

    `start` records the start. `end` records the outcome and the reason, which are its two arguments. If `start` or
    `end` fails, the error is only printed, so the command always runs. Raises OSError if the program cannot be started.
    """
    _recorded("the start of the job", start)
    try:
        code, received = _run(command)
    except OSError as error:
        reason = f"{command[0]}: {error.strerror or error}"
        _recorded("the end of the job", lambda: end("failed", reason))
        raise
    outcome = "unreported" if received and code else "succeeded" if code == 0 else "failed"
    reason = f"exit code {code}" + (f" after {signal.Signals(received[-1]).name}" if received else "")
    _recorded("the end of the job", lambda: end(outcome, reason))
    return code


def _recorded(what: str, record: Callable[[], object]) -> None:
    try:
        record()
    except Exception as error:  # noqa: BLE001 - recording a job must never stop it
        notice(f"{what} was not recorded: {failure_of(error).message}")


def _run(command: Sequence[str]) -> tuple[int, list[int]]:
    received: list[int] = []
    started: list[subprocess.Popen[bytes]] = []
    with _forwarding(started, received):
        process = subprocess.Popen(command)  # noqa: S603 - the user's own command, without a shell
        started.append(process)
        for number in received:
            process.send_signal(number)
        code = process.wait()
    return (code if code >= 0 else SIGNAL_EXIT - code), received


@contextmanager
def _forwarding(started: Sequence[subprocess.Popen[bytes]], received: list[int]) -> Iterator[None]:
    """Within the `with` block, forward signals to the started process, and store them in `received`.

    `started` is empty until the process exists. The signals do not end this program: it waits until the process ends.
    """

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        for process in started:
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
