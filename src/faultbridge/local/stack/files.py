"""The files of an embedded stack: its folder, its lock, and the state file that lists its processes.

Each stack has one folder in `state_home`. By default, `state_home` is inside the project folder.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from faultbridge.errors import Misconfigured
from faultbridge.local.environment import Ports, endpoint
from faultbridge.local.stack.processes import Process

HOME_VARIABLE = "FAULTBRIDGE_HOME"
TEMPLATE = Path("infra") / "template.yaml"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The folder of one embedded stack and the paths of its files."""

    root: Path

    @property
    def state(self) -> Path:
        """Return the path of the state file (JSON); a start writes this file, and a stop deletes it."""
        return self.root / "state.json"

    @property
    def build(self) -> Path:
        """Return the folder with the result of `sam build`; `down` keeps it, so that `up` can skip the build."""
        return self.root / "build"

    @property
    def scratch(self) -> Path:
        """Return the folder for files that the emulators write; each start empties it."""
        return self.root / "scratch"

    def log(self, name: str) -> Path:
        """Return the path of the log file of one process or tool."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def locked(self, report: Callable[[str], None]) -> Iterator[None]:
        """Lock the stack, so that only one `up` or `down` runs at a time.

        `report` receives a line of text if this call must wait for the lock.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("waiting: another `up` or `down` of this stack is running")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True, slots=True)
class Emulator:
    """A started emulator: its process, its loopback port and its log file."""

    name: str
    process: Process
    port: int
    log: str

    @property
    def endpoint(self) -> str:
        """Return the URL of the emulator, without a trailing slash."""
        return endpoint(self.port)


@dataclass(frozen=True, slots=True)
class StackState:
    """The processes of a started stack, and its latest deployment.

    - `token` identifies the emulators of this stack: their `identity` routes return it.
    - `emulator_code` is the fingerprint of the code that the emulators have loaded.
    - `deployed` is the fingerprint of the latest deployment, and `outputs` are its CloudFormation outputs. Both are
      empty before the first deployment.
    """

    stack: str
    region: str
    token: str
    emulators: tuple[Emulator, ...]
    emulator_code: str
    deployed: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        """Return the loopback ports of both emulators."""
        by_name = {emulator.name: emulator.port for emulator in self.emulators}
        return Ports(event_plane=by_name["event-plane"], compute_plane=by_name["compute-plane"])

    def with_deployment(self, fingerprint: str, outputs: dict[str, str]) -> Self:
        """Return a copy of the state with the fingerprint and the CloudFormation outputs of a new deployment."""
        return replace(self, deployed=fingerprint, outputs=outputs)


def project_root() -> Path:
    """Return the nearest folder at or above the current folder that contains the template.

    If no such folder exists, return the checkout of Faultbridge from which this package was imported. Raises
    `Misconfigured` if the package was not imported from a checkout either.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[4]):
        if (folder / TEMPLATE).is_file():
            return folder
    raise Misconfigured(f"no {TEMPLATE} above {here}; run this command in a checkout of Faultbridge")


def state_home() -> Path:
    """Return the folder of all stacks: `FAULTBRIDGE_HOME`, or by default `.faultbridge` in the project."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).absolute() if chosen else project_root() / ".faultbridge"


def stack_folder(stack: str) -> StackFolder:
    """Return the folder of a stack.

    Raises `Misconfigured` for a name that does not start with an ASCII letter, or has characters other than ASCII
    letters, digits and hyphens.
    """
    if not stack.isascii() or not stack.replace("-", "").isalnum() or not stack[:1].isalpha():
        raise Misconfigured(f"invalid stack name: {stack!r}; use letters, digits and hyphens, starting with a letter")
    return StackFolder(state_home() / stack)


def read_state(folder: StackFolder) -> StackState | None:
    """Return the state of a stack, or None if there is no valid state file.

    A file with a format version other than the current one is not valid.
    """
    try:
        document = json.loads(folder.state.read_text())
        if document.pop("version", None) != _VERSION:
            return None
        return StackState(**{**document, "emulators": tuple(map(_read_emulator, document["emulators"]))})
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return None


def write_state(folder: StackFolder, state: StackState) -> None:
    """Write the state file atomically, so that readers see either the old or the new file."""
    folder.root.mkdir(parents=True, exist_ok=True)
    draft = folder.state.with_suffix(".new")
    draft.write_text(json.dumps({"version": _VERSION, **asdict(state)}, indent=2) + "\n")
    draft.replace(folder.state)


def remove_state(folder: StackFolder) -> None:
    """Delete the state file; a missing file is not an error."""
    folder.state.unlink(missing_ok=True)


def _read_emulator(document: dict[str, Any]) -> Emulator:
    return Emulator(**{**document, "process": Process(**document["process"])})
