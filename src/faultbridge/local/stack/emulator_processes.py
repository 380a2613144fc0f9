"""Start the two emulators, check that they respond, and stop them.

`start` raises `Misconfigured` if an emulator is missing or has the wrong version, and `Transient` if an emulator does
not start.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import uuid4

from faultbridge.errors import Misconfigured, Transient
from faultbridge.local import clients, environment
from faultbridge.local.environment import (
    REGION,
    Ports,
    compute_plane_environment,
    endpoint,
    event_plane_environment,
)
from faultbridge.local.stack import fingerprint, processes
from faultbridge.local.stack.files import Emulator, StackFolder, StackState

# Exact versions, because the patches in `gaps` replace private names of the emulators.
PINNED = {"ministack": "1.4.21", "moto": "5.2.5"}
IDENTITY = {"event-plane": "/_faultbridge/identity", "compute-plane": "/faultbridge/identity"}

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_ATTEMPTS = 3


def require_pinned() -> None:
    """Raise `Misconfigured` unless both emulators are installed in their pinned versions."""
    for name, wanted in PINNED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            raise Misconfigured(f"the embedded stack needs {name} {wanted}, found: {found}; run `make setup`")


def start(folder: StackFolder, stack: str, *, default_ports: bool) -> StackState:
    """Start both emulators and wait until both respond; if one of them fails, stop both.

    With `default_ports`, the default ports are used if they are free, else any free ports. If another process takes a
    chosen port before an emulator does, ports are chosen again and the start is repeated, at most twice.
    """
    require_pinned()
    for attempt in range(1, _ATTEMPTS + 1):
        chosen = environment.choose_ports(prefer_default=default_ports)
        try:
            return _start_on(folder, stack, chosen)
        except Transient:
            # Another process may have taken a port after it was chosen.
            taken = not (environment.is_free(chosen.event_plane) and environment.is_free(chosen.compute_plane))
            if not taken or attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def stop(state: StackState) -> int:
    """Stop the processes that the state lists; returns the number of processes that were running."""
    return processes.stop(emulator.process for emulator in state.emulators)


def is_serving(emulator: Emulator, token: str) -> bool:
    """Return whether the process of this emulator runs and responds on its port with this token.

    Each stack gives its emulators a token of its own, so that no other server on the port is mistaken for them.
    """
    return processes.is_running(emulator.process) and _answers(emulator, token)


def _start_on(folder: StackFolder, stack: str, chosen: Ports) -> StackState:
    token = uuid4().hex
    _create_scratch(folder)
    started: list[Emulator] = []
    try:
        variables = event_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "event-plane", chosen.event_plane, variables))
        variables = compute_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "compute-plane", chosen.compute_plane, variables))
        for emulator in started:
            _wait_until_serving(emulator, token)
    except BaseException:
        processes.stop(emulator.process for emulator in started)
        raise
    return StackState(
        stack=stack,
        region=REGION,
        token=token,
        emulators=tuple(started),
        emulator_code=fingerprint.of_emulators(),
    )


def _create_scratch(folder: StackFolder) -> None:
    shutil.rmtree(folder.scratch, ignore_errors=True)
    for name in ("tmp", "state", "s3"):
        (folder.scratch / name).mkdir(parents=True)


def _launch(folder: StackFolder, name: str, port: int, variables: Mapping[str, str]) -> Emulator:
    log = folder.log(name)
    log.unlink(missing_ok=True)
    # -P keeps the current folder off the import path.
    command = [sys.executable, "-P", "-m", f"faultbridge.local.servers.{name.replace('-', '_')}"]
    process = processes.start(command, environment=variables, log=log)
    return Emulator(name=name, process=process, port=port, log=str(log))


def _wait_until_serving(emulator: Emulator, token: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(emulator, token):
        if not processes.is_running(emulator.process):
            raise Transient(f"the {emulator.name} ended at its start: {last_line(emulator.log)}; see {emulator.log}")
        if time.monotonic() > deadline:
            raise Transient(
                f"the {emulator.name} did not answer on {endpoint(emulator.port)} within {_START_SECONDS:.0f} s: "
                f"{last_line(emulator.log)}; see {emulator.log}"
            )
        time.sleep(_POLL_SECONDS)


def _answers(emulator: Emulator, token: str) -> bool:
    # The token distinguishes this stack's emulator from any other server on the port.
    try:
        answer = clients.http_call(emulator.endpoint + IDENTITY[emulator.name], timeout=2.0)
    except Transient:
        return False
    return isinstance(answer, dict) and answer.get("token") == token


def last_line(log: str | Path) -> str:
    """Return the last non-blank line of a log file.

    If the file is missing or has no such line, the result states this.
    """
    try:
        lines = Path(log).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "the log is empty")
