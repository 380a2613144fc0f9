"""Runs mutants in copies (forks) of one process that has imported and measured everything already.

It is a pytest plugin. First it runs every check on the unchanged program, to learn which functions each check covers.
Then it forks the process for each mutant, changes the code in the copy, and runs the checks that cover the changed
function, the cheapest first, until one detects the mutant.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType

import pytest
from hypothesis import settings

from tests.simulation.mutants.catalog import Mutant
from tests.simulation.mutants.checks import MutantCheck, measure
from tests.simulation.mutants.swap import Place, coverage_recorded, functions_of_package, swap

TIME_LIMIT = 25.0
"""Seconds of checks for each mutant; a mutant not detected by then has survived."""

HANG_LIMIT = 120.0
"""Further seconds after which a running check counts as endless."""

SURVIVED, FAILED = "-", "!"
"""Marks in the report of a copy: no check failed; the copy itself failed."""


@dataclass(frozen=True, slots=True)
class Result:
    """A mutant, the check that detected it (None: it survived), and how many checks ran and did not run."""

    mutant: Mutant
    detected_by: str | None
    checks: int
    left: int
    seconds: float


class MutantRunner:
    """A pytest plugin that runs mutants instead of running each test once."""

    def __init__(self, todo: Sequence[Mutant], simulated: Iterable[MutantCheck]) -> None:
        self.todo = todo
        self.simulated = simulated
        self.results: list[Result] = []
        self.failing_checks: list[str] = []
        self._failed = False
        self._functions: list[FunctionType] = []

    def pytest_configure(self) -> None:
        """Make hypothesis draw the same examples for each mutant and store none."""
        settings.register_profile("mutants", database=None, derandomize=True, deadline=None)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the checks, then run the mutants."""
        covered: set[Place] = set()
        with coverage_recorded(dict.fromkeys(mutant.file for mutant in self.todo), covered):
            found = [measure(check, covered) for check in (*self._tests(session.items), *self.simulated)]
        self.failing_checks = [f"{check.name}: {failure}" for check, failure in found if failure]
        checks = sorted((check for check, _ in found), key=lambda check: check.cost)
        if not (report := _in_a_copy(partial(_run_checks, checks[: len(checks) // 2]))).endswith(f" {SURVIVED}"):
            self.failing_checks.append(f"an unchanged copy: {report}")
        print(
            f"{len(checks)} checks, {sum(check.cost for check in checks):.0f} s; {len(self.todo)} mutants", flush=True
        )
        if not self.failing_checks:
            self._functions = functions_of_package()
            gc.freeze()  # a collection in a copy would touch, and so copy, all of its memory
            self.results = [self._run(mutant, checks) for mutant in self.todo]
        return True

    def _tests(self, items: Iterable[pytest.Item]) -> Iterator[MutantCheck]:
        # Each test sets up its own fixtures, so that any selection of tests can run.
        return (MutantCheck(item.nodeid, partial(self._test, item)) for item in items)

    def _test(self, item: pytest.Item) -> str | None:
        """Run one test; returns its id if it fails."""
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return item.nodeid if self._failed else None

    def _run(self, mutant: Mutant, checks: Sequence[MutantCheck]) -> Result:
        """Run one mutant in a copy of the process."""
        covering = [check for check in checks if (mutant.file, mutant.function) in check.covers]
        start = time.perf_counter()
        report = _in_a_copy(partial(_run_mutant, mutant, self._functions, covering))
        count, detected_by = report.split(" ", 1) if report else (str(len(covering)), "it never ends")
        if count == FAILED:
            raise RuntimeError(f"{mutant.name}: {detected_by}")
        seconds = time.perf_counter() - start
        left = len(covering) - int(count)
        result = Result(mutant, None if detected_by == SURVIVED else detected_by, int(count), left, seconds)
        print(result_text(result), flush=True)
        return result


def result_text(result: Result) -> str:
    """Return the result of a mutant as one line."""
    how = "survived" if result.detected_by is None else "detected"
    checks = f"{result.checks} checks{f', {result.left} left' if result.left and not result.detected_by else ''}"
    return f"{how} {result.mutant.name} | {result.detected_by or ''} ({checks}, {result.seconds:.1f} s)"


def _run_mutant(mutant: Mutant, functions: Sequence[FunctionType], checks: Sequence[MutantCheck]) -> str:
    swap(mutant, functions)
    return _run_checks(checks)


def _run_checks(checks: Sequence[MutantCheck]) -> str:
    """Run checks until one fails or time is over; returns their number and the failure or `SURVIVED`."""
    until = time.process_time() + TIME_LIMIT
    count = 0
    for check in checks:
        if time.process_time() > until:
            break
        count += 1
        try:
            failure = check.run()
        except Exception as error:  # noqa: BLE001 - a simulated run that cannot finish detects the mutant, too
            failure = f"{check.name}: {type(error).__name__}: {error}"
        if failure:
            return f"{count} {failure}"
    return f"{count} {SURVIVED}"


def _in_a_copy(work: partial[str]) -> str:
    """Run work in a copy of this process; returns its report, or "" if the copy had to be killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_as_copy(work, writer)
    os.close(writer)
    report = b""
    if select.select([reader], [], [], TIME_LIMIT + HANG_LIMIT)[0]:
        report = os.read(reader, 4096)
    else:
        os.killpg(child, signal.SIGKILL)
    os.close(reader)
    os.waitpid(child, 0)
    return report.decode(errors="replace")


def _run_as_copy(work: partial[str], writer: int) -> None:
    """Run work in the forked process without output, write its report to the pipe, and exit."""
    code = 0
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.write(writer, work().encode()[:4000])
    except BaseException as error:  # noqa: BLE001 - the other process must get every error
        os.write(writer, f"{FAILED} {type(error).__name__}: {error}".encode()[:4000])
        code = 1
    finally:
        os._exit(code)
