"""Running SAM CLI: build and deploy of the same template that goes to AWS."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from faultbridge.errors import Misconfigured, Transient

# The template's state machines are written in YAML, for people; this turns them into what it deploys.
STATE_MACHINES = Path("infra") / "build_state_machine.py"

# Of the lines that SAM prints at a failure, these say why.
_TELLING = ("Error:", "CREATE_FAILED", "UPDATE_FAILED", "Failed to")


def executable() -> str:
    """Return the `sam` beside this Python, else the one on the path; `Misconfigured` when there is none."""
    beside = Path(sys.executable).with_name("sam")
    found = str(beside) if beside.exists() else shutil.which("sam")
    if found is None:
        raise Misconfigured("SAM CLI is not installed (run `make setup`)")
    return found


def run(arguments: Sequence[str], *, project: Path, environment: Mapping[str, str], log: Path) -> None:
    """Run one SAM command with its output in a log; `Transient` with the telling line when it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '')}"
    with log.open("w") as output:
        ended = subprocess.run(
            [executable(), *arguments],
            cwd=project,
            env={**environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode != 0:
        raise Transient(f"`sam {arguments[0]}` failed: {telling_line(log)} (see {log})")


def write_state_machines(project: Path) -> None:
    """Write the project's state machines as JSON, if it has any; `Misconfigured` when one cannot be read."""
    if not (project / STATE_MACHINES).exists():
        return
    command = [sys.executable, str(project / STATE_MACHINES)]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
        raise Misconfigured(f"a state machine cannot be read: {said} (run `make machines`)")


def telling_line(log: Path) -> str:
    """Return the line of a log that says why, else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line for word in _TELLING)]
    return (telling or lines or ["it printed nothing"])[-1]
