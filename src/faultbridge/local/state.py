"""The state file: what this stack's `up` started, so that `down` stops exactly that."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from faultbridge.local.environment import endpoint
from faultbridge.local.paths import StackFolder
from faultbridge.local.ports import Ports
from faultbridge.local.processes import Process

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Emulator:
    """One emulator that was started: its process, its port on loopback, its log file."""

    name: str
    process: Process
    port: int
    log: str

    @property
    def endpoint(self) -> str:
        """Its address, without a slash at its end."""
        return endpoint(self.port)


@dataclass(frozen=True, slots=True)
class StackState:
    """What runs and what is deployed in it; `deployed` is the fingerprint of what `sam deploy` last put there."""

    stack: str
    region: str
    token: str
    emulators: tuple[Emulator, ...]
    emulator_code: str
    deployed: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        """The ports by plane."""
        by_name = {emulator.name: emulator.port for emulator in self.emulators}
        return Ports(event_plane=by_name["event-plane"], compute_plane=by_name["compute-plane"])

    def with_deployment(self, fingerprint: str, outputs: dict[str, str]) -> Self:
        """Return the same stack after a deployment."""
        return replace(self, deployed=fingerprint, outputs=outputs)


def read(folder: StackFolder) -> StackState | None:
    """Return the state of a stack; None when it is not up, or when the file is not one of ours."""
    try:
        document = json.loads(folder.state.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if document.pop("version", None) != _VERSION:
        return None
    return StackState(**{**document, "emulators": tuple(map(_emulator, document["emulators"]))})


def write(folder: StackFolder, state: StackState) -> None:
    """Put the state on disk in one step: a reader sees the old file or the new one."""
    folder.root.mkdir(parents=True, exist_ok=True)
    draft = folder.state.with_suffix(".new")
    draft.write_text(json.dumps({"version": _VERSION, **asdict(state)}, indent=2) + "\n")
    draft.replace(folder.state)


def remove(folder: StackFolder) -> None:
    """Forget the stack."""
    folder.state.unlink(missing_ok=True)


def _emulator(document: dict[str, Any]) -> Emulator:
    return Emulator(**{**document, "process": Process(**document["process"])})
