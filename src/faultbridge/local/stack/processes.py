"""Start, identify and stop the emulator processes.

A process is identified by its id and its start time. The operating system reuses ids, so an id alone may belong to an
unrelated process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STAT_STATE, _STAT_START = 0, 19  # fields 3 and 22 of /proc/<pid>/stat, counted after the command's name


@dataclass(frozen=True, slots=True)
class Process:
    """A process that this module started.

    `started` is an opaque text for the start time. It distinguishes the process from later ones with the same process
    id.
    """

    pid: int
    started: str


def start(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Process:
    """Start a detached process in its own session, without input; append the output to a log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # posix_spawn instead of subprocess: the child must outlive this process, and no one waits for it.
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _start_time(pid) or "")


def is_running(process: Process) -> bool:
    """Return whether the process with this id and start time is running.

    If it is a child process that has ended, it is also removed from the process table.
    """
    _reap(process.pid)
    started = _start_time(process.pid)
    return started is not None and started == process.started


def stop(processes: Iterable[Process], *, grace_seconds: float = 5.0) -> int:
    """Send SIGTERM to the processes, then SIGKILL to those that still run.

    Returns the number of processes that were running. `grace_seconds` is the time to wait after each signal.
    """
    running = [process for process in processes if is_running(process)]
    _signal_and_wait(running, signal.SIGTERM, grace_seconds)
    survivors = [process for process in running if is_running(process)]
    _signal_and_wait(survivors, signal.SIGKILL, grace_seconds)
    return len(running)


def terminate_with_parent(parent: str | None) -> None:
    """Request SIGTERM for this process when its parent process ends (Linux only).

    `parent` is the expected process id of the parent. If the parent has already ended, this process exits. If `parent`
    is None, the function does nothing.

    The emulators that a test run starts must end with the test run, because killed tests cannot stop their stack. The
    emulators that the command `up` starts get no `parent`, so they continue to run after the command.
    """
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit("the parent process has ended already")


def _signal_and_wait(processes: list[Process], number: signal.Signals, seconds: float) -> None:
    for process in processes:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + seconds
    while any(is_running(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # an earlier command started it: its own parent reaps it


def _start_time(pid: int) -> str | None:
    proc = Path("/proc")
    return _start_time_from_proc(proc, pid) if (proc / "self" / "stat").exists() else _start_time_from_ps(pid)


def _start_time_from_proc(proc: Path, pid: int) -> str | None:
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STAT_STATE] in {"Z", "X"}:
        return None
    # Ticks since boot repeat after a reboot; the boot id does not.
    boot = (proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    return f"{boot}/{fields[_STAT_START]}"


def _start_time_from_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None
