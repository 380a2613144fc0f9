"""Starting, recognizing and stopping the emulator processes.

A process is known by its id *and* its start time: ids are used again, and a process that only has the id of one
of ours is somebody else's.
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
    """One process of ours; `started` is an opaque text that no later process of the same id shares."""

    pid: int
    started: str


def start(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Process:
    """Start a detached process (a session of its own, no input, output appended to the log)."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # posix_spawn and not subprocess: the child is meant to outlive this process, and nobody waits for it.
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
    return Process(pid, _started_at(pid) or "")


def is_running(process: Process) -> bool:
    """Whether that very process lives; a dead child of ours is reaped on the way."""
    _reap(process.pid)
    started = _started_at(process.pid)
    return started is not None and started == process.started


def stop(processes: Iterable[Process], *, grace_seconds: float = 5.0) -> int:
    """Ask all to end, then make those end that did not; returns how many were running."""
    running = [process for process in processes if is_running(process)]
    _signal_and_wait(running, signal.SIGTERM, grace_seconds)
    survivors = [process for process in running if is_running(process)]
    _signal_and_wait(survivors, signal.SIGKILL, grace_seconds)
    return len(running)


def end_with(parent: str | None) -> None:
    """Let this process be asked to end when the one that started it has gone, if that has this id; Linux alone can.

    For stacks of tests, which nobody takes down when the tests are killed; a stack of `up` outlives its starter.
    """
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit("who started this process has gone already")


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
        return  # started by an earlier command: its own parent reaps it


def _started_at(pid: int) -> str | None:
    """When the process started, in the system's own words; None when there is none or it is a zombie."""
    proc = Path("/proc")
    return _started_by_proc(proc, pid) if (proc / "self" / "stat").exists() else _started_by_ps(pid)


def _started_by_proc(proc: Path, pid: int) -> str | None:
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STAT_STATE] in {"Z", "X"}:
        return None
    # Ticks since boot repeat after a reboot; the boot's id does not.
    boot = (proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    return f"{boot}/{fields[_STAT_START]}"


def _started_by_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None
