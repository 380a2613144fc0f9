"""Distribution of tests over processes: which tests share a process, and which start first."""

from __future__ import annotations

import os

from xdist.scheduler import LoadScopeScheduling

_STACK_TESTS = ("tests/local/", "tests/e2e/")
_OF_SHARED_STACK = ("tests/e2e/", "tests/local/test_archive.py", "tests/local/test_product.py")
"""Tests on the product's stack, which one process starts once; the others of `tests/local` start smaller ones."""
_SIMULATION_TESTS = "tests/simulation/"


class ScopeByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no type annotations
    """Runs the tests of a file in one process, those on embedded stacks in two, simulations anywhere.

    xdist's own groups have no effect under pytest 9.2, which does not expose node ids to them.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_STACK_TESTS):
            return "shared stack" if nodeid.startswith(_OF_SHARED_STACK) else "own stacks"
        return nodeid if nodeid.startswith(_SIMULATION_TESTS) else nodeid.partition("::")[0]


def needs_stack(nodeid: str) -> bool:
    """Return whether a test runs on an embedded stack."""
    return nodeid.startswith(_STACK_TESTS)


class Priority:
    """Lowers the priority of each process with its first test that needs no stack: stacks decide when a run ends."""

    NICENESS = 10

    def __init__(self) -> None:
        self._lowered = "PYTEST_XDIST_WORKER" not in os.environ

    def lower(self, nodeid: str) -> None:
        """Lower the priority for the rest of the process, if this test needs no stack."""
        if not self._lowered and not needs_stack(nodeid):
            os.nice(self.NICENESS)
            self._lowered = True


def start_order(nodeid: str) -> int:
    """Return the sort key of a test: the slowest tests start first, so that they do not delay the end."""
    if nodeid.startswith(_STACK_TESTS):
        return 0 if nodeid.startswith(_OF_SHARED_STACK) else 1
    return 2 if nodeid.startswith(_SIMULATION_TESTS) else 3
