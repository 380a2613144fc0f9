"""Distribution of tests over processes: which tests share a process, and which start first."""

from __future__ import annotations

import os

from xdist.scheduler import LoadScopeScheduling

_STACK_TESTS = ("tests/local/", "tests/e2e/")
_SIMULATION_TESTS = "tests/simulation/"


class ScopeByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no type annotations
    """Runs the tests of a file in one process, those of the embedded stack in one, simulations anywhere.

    xdist's own groups have no effect under pytest 9.2, which does not expose node ids to them.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_STACK_TESTS):
            return "stack"
        return nodeid if nodeid.startswith(_SIMULATION_TESTS) else nodeid.partition("::")[0]


def needs_stack(nodeid: str) -> bool:
    """Return whether a test runs on an embedded stack."""
    return nodeid.startswith(_STACK_TESTS)


class Priority:
    """Lowers the priority of a process of many that runs no test on a stack: the stack's processes decide the end."""

    NICENESS = 10

    def __init__(self) -> None:
        self._decided = False

    def decide(self, nodeid: str) -> None:
        """Decide once, with the first test of a process."""
        if not self._decided and "PYTEST_XDIST_WORKER" in os.environ and not needs_stack(nodeid):
            os.nice(self.NICENESS)
        self._decided = True


def start_order(nodeid: str) -> int:
    """Return the sort key of a test: the slowest tests start first, so that they do not delay the end."""
    if nodeid.startswith(_STACK_TESTS):
        return 0
    return 1 if nodeid.startswith(_SIMULATION_TESTS) else 2
