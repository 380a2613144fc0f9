"""Which tests stay together when several processes share them, and which come first."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

_ON_A_STACK = ("tests/local/", "tests/e2e/")
_SIMULATIONS = "tests/simulation/"


class ByRoom(LoadScopeScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """Tests on a stack share one process, because they share the stack; a simulation stands for itself.

    All else stays with its file. (xdist's own groups change nothing under pytest 9.2, which keeps node ids to itself.)
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_ON_A_STACK):
            return "stack"
        return nodeid if nodeid.startswith(_SIMULATIONS) else nodeid.partition("::")[0]


def place(nodeid: str) -> int:
    """Say when a test's turn comes: what takes longest begins, so that nobody waits for it at the end."""
    if nodeid.startswith(_ON_A_STACK):
        return 0
    return 1 if nodeid.startswith(_SIMULATIONS) else 2
