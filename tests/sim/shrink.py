"""Shrinking: finds a smaller run that still violates an invariant that a failing run violated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.history import History, run

MAX_RUNS = 60
"""Maximum smaller runs that a search tries. The result is therefore not always the smallest possible run."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest failing run that was found; `without` has the numbers of the faults that it skips."""

    history: History
    without: frozenset[int] = frozenset()


def violated_invariants(history: History) -> set[str]:
    """Return the names of the invariants that a run violated."""
    return {line.split(": ", 1)[0] for line in history.broken}


def shrink(failing: History, rerun: Callable[..., History] = run) -> Shrunk:
    """Return the smallest run found that violates an invariant that the run `failing` violated.

    The search first reduces the number of external actions (steps), and then the number of injected faults. The result
    is the failing run itself if no smaller run is found.
    """
    search = _Search(failing, rerun)
    steps = search.reduce_steps()
    return search.reduce_faults(steps)


class _Search:
    def __init__(self, failing: History, rerun: Callable[..., History]) -> None:
        self._wanted = violated_invariants(failing)
        self._best = Shrunk(failing)
        self._rerun = rerun
        self._seed = failing.seed
        self._runs = 0

    def reduce_steps(self) -> int:
        low, high = 0, self._best.history.steps
        while low + 1 < high and self._runs < MAX_RUNS // 2:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(middle, frozenset()) else (middle, high)
        return high

    def reduce_faults(self, steps: int) -> Shrunk:
        """Skip groups of injected faults while the run still fails, and return the smallest failing run.

        If no group can be skipped, the search continues with groups of half the size.
        """
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
        """Run the seed with `steps` actions and without some faults; return whether this run fails.

        The run fails if it violates an invariant that the original failing run violated. It then becomes the smallest
        failing run so far. `without` contains the numbers of the faults that are skipped.
        """
        self._runs += 1
        found = self._rerun(self._seed, steps, without=without)
        if not self._wanted & violated_invariants(found):
            return False
        self._best = Shrunk(found, without)
        return True
