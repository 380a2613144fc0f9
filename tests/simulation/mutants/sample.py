"""Runs a seeded sample of the generated mutants: `python -m tests.simulation.mutants.sample --sample 60 --seed 1`.

Only the tests of the rooms in the sample run, and a few seeds. `--part` limits the sample to files whose name contains
a text; `--sample 0` runs all mutants. Exit code 0: at least 95% are detected; survivors that `generated.json` explains
as equivalent do not count. Exit code 1: fewer. Exit code 2: a check fails without any mutant.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterable, Sequence
from random import Random

import pytest

from tests.simulation.mutants.__main__ import MIN_SCORE, OPTIONS
from tests.simulation.mutants.catalog import Mutant
from tests.simulation.mutants.checks import seed_runs
from tests.simulation.mutants.generated import generated
from tests.simulation.mutants.report import GENERATED, known_survivors
from tests.simulation.mutants.runner import MutantRunner, Result

SEEDS = range(6)
ROOM_TESTS = {
    "domain/": (
        "tests/domain",
        "tests/decoders",
        "tests/pipeline",
        "tests/registry",
        *(f"tests/jobs/test_{part}.py" for part in ("jobs", "progress", "resume")),
        *(f"tests/scenarios/provider/test_{part}.py" for part in ("external_replacement", "provider_repair")),
        "tests/scenarios/incidents/test_incidents.py",
        "tests/scenarios/repair/test_causation.py",
        "tests/cli/test_unknown_names.py",
    ),
    "pipeline/": (
        "tests/pipeline",
        "tests/ingest",
        "tests/scenarios",
        "tests/repair/test_admission.py",
        "tests/repair/test_isolation_backoff.py",
        *(f"tests/decoders/test_{part}.py" for part in ("link_state", "platform_sources")),
    ),
    "repair/": ("tests/repair", "tests/scenarios"),
    "incidents/": (
        "tests/scenarios/incidents",
        "tests/pipeline/correlate",
        "tests/scenarios/provider/test_group_updates.py",
    ),
    "ledger/": (
        "tests/ledger",
        "tests/archive",
        "tests/api/test_hardware.py",
        "tests/cli/test_device.py",
        *(f"tests/scenarios/repair/test_{part}.py" for part in ("causation", "custody")),
        "tests/scenarios/incidents/test_causes_of_held_cases.py",
    ),
    "adapters/dynamodb/": (
        "tests/contracts/test_table.py",
        "tests/contracts/test_consistent_reads.py",
        "tests/adapters/test_dynamodb.py",
        "tests/adapters/test_dynamodb_expressions.py",
    ),
    "adapters/compute/": tuple(f"tests/contracts/test_{port}.py" for port in ("collector", "restarter", "verifier"))
    + tuple(f"tests/adapters/test_{adapter}.py" for adapter in ("dcgm_verifier", "log_bundle", "ssm_restart")),
}


def tests_of(mutants: Iterable[Mutant]) -> list[str]:
    """Return the tests of the rooms that the mutants are in."""
    rooms = {next(room for room in ROOM_TESTS if mutant.file.startswith(room)) for mutant in mutants}
    return sorted({path for room in rooms for path in ROOM_TESTS[room]})


def drawn(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Draw a sample in the order of files; the same seed draws the same mutants. Size 0 draws all."""
    return sorted(Random(seed).sample(mutants, min(size, len(mutants)))) if size else list(mutants)


def exit_code(results: Sequence[Result]) -> int:
    """Print the score and the survivors; returns 1 if too few mutants are detected."""
    explained = known_survivors(GENERATED)
    survivors = [one.mutant for one in results if one.detected_by is None]
    left = [one for one in survivors if not explained.get(one.key, "").startswith("equivalent: ")]
    for mutant in survivors:
        print(f"survived: {mutant.key} (line {mutant.line}): {explained.get(mutant.key, 'NOT EXPLAINED')}")
    print(f"{len(results) - len(left)} of {len(results)} detected or equivalent, {len(left)} not")
    return int(len(left) > (1 - MIN_SCORE) * len(results))


def main(arguments: Sequence[str]) -> int:
    """Draw the sample, run it and print the score; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mutants-generated", description=__doc__)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants to run; 0 runs all")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the sample")
    parser.add_argument("--part", default="", help="only files whose name contains this text")
    given = parser.parse_args(arguments)
    mutants = drawn([one for one in generated() if given.part in one.file], given.sample, given.seed)
    gc.set_threshold(100_000, 50, 10)
    # The simulation runs on fakes, so it covers no adapter.
    simulated = seed_runs(SEEDS if any(not one.file.startswith("adapters/") for one in mutants) else ())
    runner = MutantRunner(mutants, simulated)
    pytest.main([*OPTIONS, *tests_of(mutants)], plugins=[runner])
    for line in runner.failing_checks:
        print(f"a check fails without a mutant: {line}")
    return exit_code(runner.results) if runner.results and not runner.failing_checks else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
