"""Shrink: from a failing history to a small one that breaks the same invariant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.simulation.history import History, run

MAX_RUNS = 60
"""How many shorter histories are tried; a story need not be the shortest to be read."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest history that was found, and which injected faults it leaves out."""

    history: History
    without: frozenset[int] = frozenset()


def invariants(history: History) -> set[str]:
    """Return the names of the broken invariants."""
    return {line.split(": ", 1)[0] for line in history.broken}


def shrink(failing: History, again: Callable[..., History] = run) -> Shrunk:
    """Look for fewer steps, then for fewer injected faults, by halves."""
    search = _Search(failing, again)
    steps = search.steps()
    return search.faults(steps)


class _Search:
    def __init__(self, failing: History, again: Callable[..., History]) -> None:
        self._wanted = invariants(failing)
        self._best = Shrunk(failing)
        self._again = again
        self._seed = failing.seed
        self._runs = 0

    def steps(self) -> int:
        """Halve the distance to the shortest plan that still fails."""
        low, high = 0, self._best.history.steps
        while low + 1 < high and self._runs < MAX_RUNS // 2:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(middle, frozenset()) else (middle, high)
        return high

    def faults(self, steps: int) -> Shrunk:
        """Leave out injected faults in ever smaller groups, as long as the same invariant breaks."""
        left = list(range(1, self._best.history.injected + 1))
        size = len(left)
        while size >= 1 and self._runs < MAX_RUNS:
            for start in range(0, len(left), size):
                group = left[start : start + size]
                without = frozenset(range(1, self._best.history.injected + 1000)) - (set(left) - set(group))
                if self._runs < MAX_RUNS and self._fails(steps, without):
                    left = [one for one in left if one not in set(group)]
                    break
            else:
                size //= 2
        return self._best

    def _fails(self, steps: int, without: frozenset[int]) -> bool:
        self._runs += 1
        found = self._again(self._seed, steps, without=without)
        if not self._wanted & invariants(found):
            return False
        self._best = Shrunk(found, without)
        return True
