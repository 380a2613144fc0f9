"""Runs one mutant in a process of its own: cheap looks first, dear ones only while nobody noticed it.

    python -m tests.simulation.mutants.worker services/append.py 3

Exit code 0: it lives. 1: something noticed it; the last line says what.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from pathlib import Path
from types import CodeType

from tests.simulation.mutants.catalogue import PACKAGE, mutated

SEEDS = range(8)
STEPS = 40
TESTS = {
    "stages": ("tests/stages/test_watermarks.py", "tests/stages", "tests/services/test_ingest.py"),
    "services/replacement": (
        "tests/services/replacement",
        "tests/scenarios/test_replacement.py",
        "tests/scenarios/test_relapse.py",
    ),
    "services/pager": ("tests/services/test_pager.py",),
    "services": ("tests/services", "--ignore=tests/services/replacement"),
}


class Finder(importlib.abc.MetaPathFinder):
    """Loads one module with one change."""

    def __init__(self, file: str, number: int) -> None:
        self.name = "faultbridge." + file.removesuffix(".py").replace("/", ".")
        self.file = file
        self.number = number

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        spec.loader = Loader(fullname, str(PACKAGE / self.file), self)
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed source, whatever bytecode lies about."""

    def __init__(self, name: str, path: str, finder: Finder) -> None:
        super().__init__(name, path)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        return compile(mutated(self.finder.file, self.finder.number, source), self.path, "exec", dont_inherit=True)


def by_seeds() -> str | None:
    """What the first seeds notice."""
    from faultbridge.simulation.history import run

    for seed in SEEDS:
        found = run(seed, STEPS)
        if found.broken:
            return f"seed {seed}: {found.broken[0]}"
    return None


def by_orderings() -> str | None:
    """What a fault at any point of a small world shows."""
    from faultbridge.simulation.exhaustive import PERSON, REPAIR, explore

    for world in (PERSON, REPAIR):
        explored = explore(world, points=25, faults=1)
        if explored.broken:
            return f"{world.name}, {explored.broken[0]}"
    return None


def by_units(*tests: str) -> str | None:
    """Whether unit tests notice it."""
    import pytest

    return "the unit tests" if pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]) else None


def main(file: str, number: int) -> int:
    """Play the mutant."""
    sys.meta_path.insert(0, Finder(file, number))
    tests = next(tests for prefix, tests in TESTS.items() if file.startswith(prefix))
    own = Path("tests") / Path(file).parent / f"test_{Path(file).stem}.py"
    looks = [lambda: by_units(str(own))] if own.exists() else []
    what = None
    for look in (*looks, by_seeds, lambda: by_units(*tests), by_orderings):
        try:
            what = what or look()
        except Exception as error:  # noqa: BLE001 - a history that cannot run to its end notices the mutant, too
            what = f"{type(error).__name__}: {error}"
    print(what or "it lives")
    return int(what is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
