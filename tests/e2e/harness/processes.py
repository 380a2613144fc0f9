"""Run the CLI in its own process, create clients, and read the state of worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from tests.local.stack import PrivateStack
from tests.waiting import BUSY_FACTOR

Completed = subprocess.CompletedProcess[bytes]

SERVICES = (
    "dynamodb",
    "events",
    "sqs",
    "s3",
    "sns",
    "stepfunctions",
    "logs",
    "ec2",
    "autoscaling",
    "ssm",
    "eks",
)


def run_cli(*arguments: str, stdin: bytes | None, home: Path) -> Completed:
    """Run `faultbridge` in its own process, without AWS variables in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["FAULTBRIDGE_HOME"] = str(home)
    code = "import sys; from faultbridge.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, input=stdin, env=environment, capture_output=True, check=False, timeout=120 * BUSY_FACTOR
    )


def clients_of(stack: PrivateStack) -> Clients:
    """Create all clients of the stack now, so that other tests keep their environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.info.environment.items():
            patch.setenv(name, value)
        clients = Clients()
        for name in SERVICES:
            getattr(clients, name)
    return clients


def print_figures(**figures: Any) -> None:
    """Print figures as one line of JSON on the original standard output, which pytest does not capture."""
    print(json.dumps(figures, default=str), file=sys.__stdout__, flush=True)


def parent_of(pid: int) -> int:
    """Return the process id of a process's parent."""
    return int(_state_and_parent(pid)[1])


def is_gone(pid: int) -> bool:
    """Return whether a process has ended or is a zombie."""
    try:
        return _state_and_parent(pid)[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends while its file is read
        return True


def _state_and_parent(pid: int) -> list[str]:
    # The program's name is in parentheses and may contain anything; state and parent follow it.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
