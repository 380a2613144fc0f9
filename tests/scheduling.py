"""Distribution of tests over processes: which tests share a process, and which start first."""

from __future__ import annotations

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


def start_order(nodeid: str) -> int:
    """Return the sort key of a test: the slowest tests start first, so that they do not delay the end."""
    if nodeid.startswith(_STACK_TESTS):
        return 0
    return 1 if nodeid.startswith(_SIMULATION_TESTS) else 2
