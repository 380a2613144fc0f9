"""Plays mutants in copies of one warm process that has everything imported, collected and measured already.

It runs as a plugin of pytest: first every look on the sound program, which shows what each sees; then a copy of the
process (a fork) for each mutant, which changes the code and takes the looks that see the place, the cheapest first,
until one notices.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import settings

from tests.simulation.mutants.catalog import Mutant
from tests.simulation.mutants.looks import Look, histories, measured
from tests.simulation.mutants.swap import Place, swap, watched

PATIENCE = 25.0
"""Seconds of looks a mutant: what nobody noticed by then lives."""

ENDLESS = 120.0
"""Seconds after that in which a look must have come to its end."""

LIVES, FAULTY = "-", "!"


@dataclass(frozen=True, slots=True)
class Played:
    """A mutant, what noticed it (None: it lives), how many looks were taken and how many were left."""

    mutant: Mutant
    noticed: str | None
    looks: int
    left: int
    seconds: float


class Player:
    """Has the mutants played instead of the tests once."""

    def __init__(self, todo: Sequence[Mutant]) -> None:
        self.todo = todo
        self.played: list[Played] = []
        self.unsound: list[str] = []
        self._failed = False

    def pytest_configure(self) -> None:
        """Draw the same examples for each mutant, and remember none of a broken program."""
        settings.register_profile("mutants", database=None, derandomize=True, deadline=None)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear that a test failed."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the looks, then play the mutants."""
        seen: set[Place] = set()
        with watched(dict.fromkeys(mutant.file for mutant in self.todo), seen):
            found = [measured(look, seen) for look in (*self._tests(session.items), *histories())]
        self.unsound = [f"{look.name}: {noticed}" for look, noticed in found if noticed]
        looks = sorted((look for look, _ in found), key=lambda look: look.cost)
        if not (said := _in_a_copy(partial(_taken, looks[: len(looks) // 2]))).endswith(f" {LIVES}"):
            self.unsound.append(f"a copy that changes nothing: {said}")
        print(f"{len(looks)} looks, {sum(look.cost for look in looks):.0f} s; {len(self.todo)} mutants", flush=True)
        if not self.unsound:
            self.played = [self._play(mutant, looks) for mutant in self.todo]
        return True

    def _tests(self, items: Iterable[pytest.Item]) -> Iterator[Look]:
        # Each test puts up its fixtures for itself, so that any choice of them may follow.
        return (Look(item.nodeid, partial(self._test, item)) for item in items)

    def _test(self, item: pytest.Item) -> str | None:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return item.nodeid if self._failed else None

    def _play(self, mutant: Mutant, looks: Sequence[Look]) -> Played:
        seeing = [look for look in looks if (mutant.file, mutant.function) in look.sees]
        began = time.perf_counter()
        said = _in_a_copy(partial(_look, mutant, seeing))
        taken, noticed = said.split(" ", 1) if said else (str(len(seeing)), "it never ends")
        if taken == FAULTY:
            raise RuntimeError(f"{mutant.name}: {noticed}")
        seconds = time.perf_counter() - began
        left = len(seeing) - int(taken)
        played = Played(mutant, None if noticed == LIVES else noticed, int(taken), left, seconds)
        print(told(played), flush=True)
        return played


def told(played: Played) -> str:
    """Say in a line what became of a mutant."""
    how = "alive  " if played.noticed is None else "noticed"
    looks = f"{played.looks} looks{f', {played.left} left' if played.left and not played.noticed else ''}"
    return f"{how} {played.mutant.name} | {played.noticed or ''} ({looks}, {played.seconds:.1f} s)"


def _look(mutant: Mutant, looks: Sequence[Look]) -> str:
    swap(mutant)
    return _taken(looks)


def _taken(looks: Sequence[Look]) -> str:
    until = time.process_time() + PATIENCE
    taken = 0
    for look in looks:
        if time.process_time() > until:
            break
        taken += 1
        try:
            noticed = look.run()
        except Exception as error:  # noqa: BLE001 - a history that cannot run to its end notices the mutant, too
            noticed = f"{look.name}: {type(error).__name__}: {error}"
        if noticed:
            return f"{taken} {noticed}"
    return f"{taken} {LIVES}"


def _in_a_copy(look: partial[str]) -> str:
    """Return what a copy of this process says; nothing if it has to be ended."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_copy(look, say)
    os.close(say)
    said = b""
    if select.select([hear], [], [], PATIENCE + ENDLESS)[0]:
        said = os.read(hear, 4096)
    else:
        os.killpg(child, signal.SIGKILL)
    os.close(hear)
    os.waitpid(child, 0)
    return said.decode(errors="replace")


def _be_the_copy(look: partial[str], say: int) -> None:
    code = 0
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.write(say, look().encode()[:4000])
    except BaseException as error:  # noqa: BLE001 - whatever it is, the other process must hear of it
        os.write(say, f"{FAULTY} {type(error).__name__}: {error}".encode()[:4000])
        code = 1
    finally:
        os._exit(code)
