"""A private embedded stack for tests: its own folder, its own ports, nothing shared with a stack of the developer.

It never skips: an embedded stack that does not start is a failure.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faultbridge import local
from faultbridge.local import clients, requests
from faultbridge.local.deploy import Deployment
from faultbridge.local.environment import ENDS_WITH_VARIABLE

TINY = Path(__file__).parent / "tiny"


@dataclass(frozen=True)
class PrivateStack:
    """A stack that is up, and what a test wants of it."""

    home: Path
    info: local.StackInfo

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs of the template."""
        return self.info.outputs

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a subprocess: the AWS endpoints, and the folder by which the command line finds the stack."""
        return {**self.info.environment, "FAULTBRIDGE_HOME": str(self.home)}

    def client(self, service: str) -> Any:
        """A boto3 client aimed at the stack; `auto-scaling`, `ec2` and `ssm` go to the compute plane."""
        return clients.client(service, self.info.environment)

    def workers(self) -> dict[str, int]:
        """The process id of each function's worker that runs now, by function name."""
        found = requests.call(f"{self.info.endpoint}/_faultbridge/workers")
        return {worker["function"]: worker["pid"] for worker in found}

    def kill_worker(self, function: str) -> int:
        """End the worker of the function whose name contains this, as a crash would; returns its process id."""
        pid = next(pid for name, pid in self.workers().items() if function in name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def set_variable(self, name: str, value: str) -> None:
        """Give every function an environment variable; workers start again with it, as on AWS."""
        functions = self.client("lambda")
        for page in functions.get_paginator("list_functions").paginate():
            for function in page["Functions"]:
                variables = {**function.get("Environment", {}).get("Variables", {}), name: value}
                functions.update_function_configuration(
                    FunctionName=function["FunctionName"], Environment={"Variables": variables}
                )

    def move_clock(self, days: float) -> None:
        """Let every function believe that it is so many days later than it is."""
        self.set_variable("FAULTBRIDGE_CLOCK_OFFSET_SECONDS", str(int(days * 86_400)))

    def status(self) -> local.StackStatus:
        """What `faultbridge status` sees."""
        with at_home(self.home):
            return local.status(stack=self.info.stack)


@contextmanager
def at_home(home: Path) -> Iterator[None]:
    """Let the embedded stack keep its files there meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULTBRIDGE_HOME", str(home))
        yield


@contextmanager
def private_stack(home: Path, deployment: Deployment | None = None) -> Iterator[PrivateStack]:
    """A stack of its own while the block lasts; by default of the product's template."""
    with at_home(home), pytest.MonkeyPatch.context() as patch:
        # Whoever kills the tests ends their stack, too.
        patch.setenv(ENDS_WITH_VARIABLE, str(os.getpid()))
        info = local.up(usual_ports=False, deployment=deployment)
    try:
        yield PrivateStack(home, info)
    finally:
        with at_home(home):
            local.down()


def tiny_deployment(**parameters: str) -> Deployment:
    """The small template of these tests, which has one of each thing that the emulator gets wrong."""
    return Deployment(project=TINY, template=TINY / "infra" / "template.yaml", parameters=parameters)
