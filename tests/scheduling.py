"""Distribution of tests over processes, by file, but the tests on one stack share its process; how to repeat one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

import pytest
from xdist.scheduler import LoadFileScheduling

IS_XDIST_PROCESS = "PYTEST_XDIST_WORKER" in os.environ

_DEPLOYMENT = "tests/install/test_deploy_command.py"
_STACK_TESTS = ("tests/local/", "tests/e2e/", _DEPLOYMENT)
_OF_SHARED_STACK = ("tests/e2e/", "tests/local/test_archive.py", "tests/local/test_product.py", _DEPLOYMENT)
"""Tests on the product's stack, which one process starts once; the others of `tests/local` start smaller ones."""
_IN_ONE_PROCESS = {
    "tests/adapters/": "clients of AWS",
    "tests/contracts/": "clients of AWS",
    "tests/architecture/": "syntax trees",
}
"""What the tests of a folder share, which takes a process seconds and hundreds of megabytes."""


class StacksTogether(LoadFileScheduling):  # type: ignore[misc]  # xdist has no type annotations
    """Runs the tests of a file in one process, and all tests on one stack too.

    By file alone, each process would start a stack of its own. The groups of xdist have no effect under pytest 9.2,
    which does not expose node ids to them.
    """

    def _split_scope(self, nodeid: str) -> str:
        if needs_stack(nodeid):
            return "shared stack" if nodeid.startswith(_OF_SHARED_STACK) else "own stacks"
        scope: str = _in_one_process(nodeid) or super()._split_scope(nodeid)
        return scope


def needs_stack(nodeid: str) -> bool:
    """Return whether a test runs on an embedded stack."""
    return nodeid.startswith(_STACK_TESTS)


def _in_one_process(nodeid: str) -> str | None:
    return next((shared for folder, shared in _IN_ONE_PROCESS.items() if nodeid.startswith(folder)), None)


def start_order(item: pytest.Item) -> int:
    """Return the sort key of a test: those on stacks, of large groups, and slow ones start first, not at the end."""
    if needs_stack(item.nodeid):
        return 0 if item.nodeid.startswith(_OF_SHARED_STACK) else 1
    if _in_one_process(item.nodeid):
        return 2
    return 3 if item.get_closest_marker("slow") else 4


def repeat_command(nodeid: str, inputs: Mapping[str, str | None]) -> str:
    """Return the command that repeats a test alone, with the options that drew its random inputs."""
    given = "".join(f"{name}={value} " for name, value in inputs.items() if value is not None)
    return f".venv/bin/pytest -n 0 -m '' {given}{shlex.quote(nodeid)}"


class Priority:
    """Lowers the priority of each process with its first test that computes: tests that wait decide when a run ends."""

    NICENESS = 10

    def __init__(self) -> None:
        self._lowered = not IS_XDIST_PROCESS

    def lower(self, nodeid: str) -> None:
        """Lower the priority for the rest of the process, if this test needs no stack."""
        if not self._lowered and not needs_stack(nodeid):
            os.nice(self.NICENESS)
            self._lowered = True
