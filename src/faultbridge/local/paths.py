"""Where the embedded stack keeps its files: one folder a stack, inside the project's own folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faultbridge.errors import Misconfigured

HOME_VARIABLE = "FAULTBRIDGE_HOME"
TEMPLATE = Path("infra") / "template.yaml"


def project_root() -> Path:
    """Return the nearest folder upwards that holds the template; the package's own checkout when there is none.

    Raises `Misconfigured` outside any checkout.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[3]):
        if (folder / TEMPLATE).is_file():
            return folder
    raise Misconfigured(f"no {TEMPLATE} above {here} (run it inside a checkout of Faultbridge)")


def state_home() -> Path:
    """Return the folder that holds one folder a stack: `FAULTBRIDGE_HOME`, else `.faultbridge` in the project."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Path(chosen).absolute() if chosen else project_root() / ".faultbridge"


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The files of one embedded stack."""

    root: Path

    @property
    def state(self) -> Path:
        """The JSON file that says what runs; it exists only while the stack is up."""
        return self.root / "state.json"

    @property
    def build(self) -> Path:
        """What `sam build` left; kept after `down`, so that the next start need not build."""
        return self.root / "build"

    @property
    def scratch(self) -> Path:
        """Everything that the emulators write; emptied at each start."""
        return self.root / "scratch"

    def log(self, name: str) -> Path:
        """Return the log file of one process or tool."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def locked(self, waiting: Callable[[str], None]) -> Iterator[None]:
        """Hold the stack for one `up` or `down` at a time; says so when it has to wait."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting("another up or down of this stack is at work; waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def stack_folder(stack: str) -> StackFolder:
    """Return the folder of the stack of that name; `Misconfigured` when the name is no CloudFormation stack name."""
    if not stack.replace("-", "").isalnum() or not stack[:1].isalpha():
        raise Misconfigured(f"{stack!r} is no stack name (letters, digits and hyphens, a letter first)")
    return StackFolder(state_home() / stack)
