"""Runs the mutants and prints the score: `python -m tests.simulation.mutants [part of a file name]`.

Exit code 0: at least 95% are detected, and the survivors are exactly those explained in `known.json`. Exit code 1:
otherwise. Exit code 2: a check fails without any mutant.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping

import pytest

from tests.simulation.mutants.catalog import mutants
from tests.simulation.mutants.checks import simulated_runs
from tests.simulation.mutants.planted import PLANTED
from tests.simulation.mutants.report import known_survivors
from tests.simulation.mutants.runner import MutantRunner, Result

MIN_SCORE = 0.95
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"
OPTIONS = ("-qq", "--no-header", "-p", "no:cacheprovider", "-o", "timeout=0", "--capture=sys", "-W", REWRITTEN)
TESTS = tuple(
    f"tests/{room}"
    for room in (
        "archive", "domain", "findings", "gateway", "ingest", "jobs", "ledger", "ops", "pager", "pipeline", "registry",
        "repair", "rules", "scenarios", "storage",
    )
)  # fmt: skip
ADAPTER_TESTS = (
    *(f"tests/contracts/test_{port}.py" for port in ("consistent_reads", "table", "verifier")),
    "tests/adapters/test_hyperpod_repair.py",
    "tests/adapters/test_pair_verifier.py",
    "tests/adapters/test_slurm.py",
    "tests/decoders/test_peer_checks.py",
    "tests/decoders/test_nccl_peer_pair.py",
)


def main(part: str) -> int:
    """Run the mutants of the files whose name contains a text; returns the exit code."""
    gc.set_threshold(100_000, 50, 10)
    runner = MutantRunner([mutant for mutant in (*mutants(), *PLANTED) if part in mutant.file], simulated_runs())
    pytest.main([*OPTIONS, *TESTS, *ADAPTER_TESTS], plugins=[runner])
    for line in runner.failing_checks:
        print(f"a check fails without a mutant: {line}")
    if runner.failing_checks or not runner.results:
        return 2
    return exit_code(runner.results, known_survivors())


def exit_code(results: list[Result], explained: Mapping[str, str]) -> int:
    """Print the score; returns 1 if it is too low or if the survivors are not exactly the explained ones."""
    survivors = {one.mutant.key for one in results if one.detected_by is None}
    seconds = sum(one.seconds for one in results)
    print(f"{len(results) - len(survivors)} of {len(results)} detected, {seconds:.0f} s")
    for mutant in (one.mutant for one in results if one.detected_by is None):
        print(f"survived: {mutant.key} (line {mutant.line}): {explained.get(mutant.key, 'NOT EXPLAINED')}")
    wrong = survivors ^ {one.mutant.key for one in results if one.mutant.key in explained}
    for key in sorted(wrong - survivors):
        print(f"explained as a survivor, but detected: {key}")
    return int(bool(wrong) or len(survivors) > (1 - MIN_SCORE) * len(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
