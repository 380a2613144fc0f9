"""What every step of the smoke test uses: the names, the AWS clients, the commands and the deadline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from faultbridge.adapters.aws.clients import Clients
from faultbridge.install.packaging import PACKAGED
from faultbridge.model.errors import FaultbridgeError, Misconfigured
from infra.smoke.plan import TAG, nodes_of

T = TypeVar("T")

NAME = re.compile(r"fb-smoke-[a-z0-9]{1,11}")
"""Names of smoke stacks. Cleanup refuses any other name, so that it can never remove an installation."""

POLL_SECONDS = 2.0
COMMAND_SECONDS = 180


class SmokeFailed(FaultbridgeError):  # noqa: N818 - a result of the test, not a fault of the program
    """Raised if a step or the preparation of the smoke test fails."""


def checked_name(name: str) -> str:
    """Return the name; raises Misconfigured when it is not the name of a smoke stack."""
    if NAME.fullmatch(name) is None:
        raise Misconfigured(f"not the name of a smoke stack: {name!r}; it must match {NAME.pattern}")
    return name


@dataclass
class Smoke:
    """One run: its stack, the folder of what it deploys and its parameters, the clients, and what the steps found.

    `deadline` is a time of the monotonic clock. With `hours`, a fleet with agents runs for that long at the end.
    """

    name: str
    clients: Clients
    deadline: float
    packaged: Path = PACKAGED
    parameters: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)
    hours: float = 0

    @property
    def nodes(self) -> int:
        """The number of instances of the group."""
        return nodes_of(self.hours)

    @property
    def bucket(self) -> str:
        """The bucket of the built functions, and of the agent."""
        return f"{self.name}-artifacts-{self.clients.sts.get_caller_identity()['Account']}"

    @property
    def group(self) -> str:
        """The name of the Auto Scaling group, of its launch template and of the registered cluster."""
        return f"{self.name}-nodes"

    @property
    def role(self) -> str:
        """The name of the role and of the instance profile of the instances."""
        return f"{self.name}-node"

    @property
    def tags(self) -> list[Any]:
        """The cost tag in the form that most services accept."""
        return [{"Key": TAG, "Value": self.name}]

    @property
    def region(self) -> str:
        """The region; raises Misconfigured without one."""
        if self.clients.region is None:
            raise Misconfigured("no AWS region; set AWS_REGION")
        return self.clients.region

    def faultbridge(self, *arguments: str, stdin: bytes = b"") -> Any:  # noqa: ANN401 - any JSON
        """Run a `faultbridge` command on the stack and return its JSON; raises SmokeFailed on any exit code but 0."""
        code = "import sys; from faultbridge.cli import main; sys.exit(main())"
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", code, *arguments, "--stack", self.name, "--region", self.region, "--json"],
            input=stdin, capture_output=True, check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip() or "no error output"
            raise SmokeFailed(f"`faultbridge {' '.join(arguments)}` ended with {done.returncode}: {reason}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def seconds_left(self) -> float:
        """Return the seconds until the deadline, at least one."""
        return max(1.0, self.deadline - time.monotonic())

    def wait_for(self, what: str, probe: Callable[[], T | None]) -> T:
        """Call `probe` until its result is truthy and return it; raises SmokeFailed at the deadline."""
        while not (result := probe()):
            if time.monotonic() > self.deadline:
                raise SmokeFailed(f"not in time: {what}")
            time.sleep(POLL_SECONDS)
        return result


def emulated() -> bool:
    """Return whether the AWS calls of this process go to emulators."""
    return bool(os.environ.get("AWS_ENDPOINT_URL"))
