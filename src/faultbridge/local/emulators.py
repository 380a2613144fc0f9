"""Starting the two emulators and knowing when they serve.

Raises `Misconfigured` when an emulator is missing or of another version, `Transient` when one does not come up.
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
from faultbridge.local import fingerprint, ports, processes, requests
from faultbridge.local.environment import (
    REGION,
    compute_plane_environment,
    endpoint,
    event_plane_environment,
)
from faultbridge.local.paths import StackFolder
from faultbridge.local.ports import Ports
from faultbridge.local.state import Emulator, StackState

# Exactly these: the gaps replace private names of theirs.
PINNED = {"ministack": "1.4.21", "moto": "5.2.5"}
IDENTITY = {"event-plane": "/_faultbridge/identity", "compute-plane": "/faultbridge/identity"}

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_ATTEMPTS = 3


def require_pinned() -> None:
    """Say what is missing when the emulators are not installed as pinned."""
    for name, wanted in PINNED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            raise Misconfigured(f"the embedded stack needs {name} {wanted}, found {found} (run `make setup`)")


def start(folder: StackFolder, stack: str, *, usual_ports: bool) -> StackState:
    """Start both and wait until both serve; when one does not, neither is left running."""
    require_pinned()
    for attempt in range(1, _ATTEMPTS + 1):
        chosen = ports.choose(usual=usual_ports)
        try:
            return _start_on(folder, stack, chosen)
        except Transient:
            # Between choosing a port and listening on it, somebody else may have taken it.
            taken = not (ports.is_free(chosen.event_plane) and ports.is_free(chosen.compute_plane))
            if not taken or attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def stop(state: StackState) -> int:
    """Stop exactly the processes that the state names; returns how many were running."""
    return processes.stop(emulator.process for emulator in state.emulators)


def serves(emulator: Emulator, token: str) -> bool:
    """Whether that very emulator runs and answers on its port."""
    return processes.is_running(emulator.process) and _answers(emulator, token)


def _start_on(folder: StackFolder, stack: str, chosen: Ports) -> StackState:
    token = uuid4().hex
    _make_scratch(folder)
    started: list[Emulator] = []
    try:
        environment = event_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "event-plane", chosen.event_plane, environment))
        environment = compute_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "compute-plane", chosen.compute_plane, environment))
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


def _make_scratch(folder: StackFolder) -> None:
    shutil.rmtree(folder.scratch, ignore_errors=True)
    for name in ("tmp", "state", "s3"):
        (folder.scratch / name).mkdir(parents=True)


def _launch(folder: StackFolder, name: str, port: int, environment: Mapping[str, str]) -> Emulator:
    log = folder.log(name)
    log.unlink(missing_ok=True)
    # -P: the current folder is not on the import path, whatever it holds.
    command = [sys.executable, "-P", "-m", f"faultbridge.local.{name.replace('-', '_')}"]
    process = processes.start(command, environment=environment, log=log)
    return Emulator(name=name, process=process, port=port, log=str(log))


def _wait_until_serving(emulator: Emulator, token: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(emulator, token):
        if not processes.is_running(emulator.process):
            raise Transient(f"the {emulator.name} ended at its start: {last_line(emulator.log)} (see {emulator.log})")
        if time.monotonic() > deadline:
            raise Transient(
                f"the {emulator.name} did not answer on {endpoint(emulator.port)} within {_START_SECONDS:.0f} s: "
                f"{last_line(emulator.log)} (see {emulator.log})"
            )
        time.sleep(_POLL_SECONDS)


def _answers(emulator: Emulator, token: str) -> bool:
    # The token tells ours from whatever else may listen on that port.
    try:
        answer = requests.call(emulator.endpoint + IDENTITY[emulator.name], timeout=2.0)
    except Transient:
        return False
    return isinstance(answer, dict) and answer.get("token") == token


def last_line(log: str | Path) -> str:
    """Return the last line of a log that says something."""
    try:
        lines = Path(log).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")
