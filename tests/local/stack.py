"""Private embedded stacks for tests: each has its own folder and its own ports.

A stack that does not start is a failure; tests never skip.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultbridge import local
from faultbridge.local import clients
from faultbridge.local.environment import PARENT_VARIABLE
from faultbridge.local.stack.deployment import Deployment
from faultbridge.model.errors import FaultbridgeError

TINY = Path(__file__).parent / "tiny"
LISTENING = "0A"  # in /proc/net/tcp
LOOPBACK = "0100007F"  # 127.0.0.1 in /proc/net/tcp


@dataclass(frozen=True)
class PrivateStack:
    """A running stack with helpers for tests."""

    home: Path
    info: local.StackInfo

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs of the template."""
        return self.info.outputs

    @property
    def environment(self) -> dict[str, str]:
        """The variables for a subprocess: the AWS endpoints, and the folder where the CLI finds the stack."""
        return {**self.info.environment, "FAULTBRIDGE_HOME": str(self.home)}

    def client(self, service: str) -> Any:
        """Return a boto3 client for the stack; `auto-scaling`, `ec2`, `eks` and `ssm` use the compute plane."""
        return clients.client(service, self.info.environment)

    def workers(self) -> dict[str, int]:
        """Return the process id of each function's running worker by function name."""
        found = clients.http_call(f"{self.info.endpoint}/_faultbridge/workers")
        return {worker["function"]: worker["pid"] for worker in found}

    def kill_worker(self, function: str) -> int:
        """Kill the worker of the function whose name contains this text; return its process id."""
        pid = next(pid for name, pid in self.workers().items() if function in name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def set_variable(self, name: str, value: str) -> None:
        """Set an environment variable of every function; workers restart with it, as on AWS."""
        functions = self.client("lambda")
        for page in functions.get_paginator("list_functions").paginate():
            for function in page["Functions"]:
                variables = {**function.get("Environment", {}).get("Variables", {}), name: value}
                functions.update_function_configuration(
                    FunctionName=function["FunctionName"], Environment={"Variables": variables}
                )

    def status(self) -> local.StackStatus:
        """Return the result of `faultbridge status`."""
        with stack_home(self.home):
            return local.status(stack=self.info.stack)


@contextmanager
def stack_home(home: Path) -> Iterator[None]:
    """Store the files of embedded stacks in this folder within the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULTBRIDGE_HOME", str(home))
        yield


@contextmanager
def private_stack(home: Path, deployment: Deployment | None = None) -> Iterator[PrivateStack]:
    """Run a separate stack within the block; the default deployment is the product's template."""
    with stack_home(home), pytest.MonkeyPatch.context() as patch:
        # The stack ends with the test process, even when that is killed.
        patch.setenv(PARENT_VARIABLE, str(os.getpid()))
        info = local.up(default_ports=False, deployment=deployment)
    try:
        yield PrivateStack(home, info)
    finally:
        with stack_home(home):
            local.down()


def tiny_deployment(**parameters: str) -> Deployment:
    """Return the small test template, which has one resource for each gap of the event plane."""
    return Deployment(project=TINY, template=TINY / "infra" / "template.yaml", parameters=parameters)


def up(deployment: Deployment, *, fresh: bool = False) -> tuple[local.StackInfo, list[str]]:
    """Call `up` and return its result with its progress lines."""
    progress: list[str] = []
    info = local.up(fresh, progress.append, default_ports=False, deployment=deployment)
    return info, progress


def failure(deployment: Deployment) -> FaultbridgeError:
    """Call `up`, which must fail, and return its error of one line."""
    with pytest.raises(FaultbridgeError) as error:
        up(deployment)
    assert "\n" not in str(error.value)
    return error.value


def processes_of(home: Path) -> list[str]:
    """Return the command lines of all processes with this folder in their environment."""
    found = []
    others = (entry for entry in Path("/proc").glob("[0-9]*") if entry.name != str(os.getpid()))
    for entry in others:
        try:
            if str(home).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def listening_addresses(pid: int) -> Iterator[str]:
    """Yield the local address (hexadecimal) of each TCP socket on which the process listens."""
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            links.append(str(file.readlink()))
    own = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in own:
                yield fields[1].partition(":")[0]
