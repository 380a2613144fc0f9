"""Print the lines of each room of the package against its budget, and the imports between rooms.

Run it as `python -m infra.size`. It exits with 1 if rooms import each other in a circle.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "faultbridge"
BUDGETS = {
    "model": 7_000,
    "decode": 9_500,
    "decide": 7_000,
    "record": 4_200,
    "repair": 10_000,
    "serve": 10_500,
    "adapters": 7_200,
    "node": 3_800,
    "explain": 3_200,
    "install": 900,
    "cli": 6_500,
    "local": 4_200,
}
"""Lines that a room may have at version 1.0. Data files and generated files do not count."""

GENERATED = "do not edit"
"""What the first line of a generated file contains."""

MAX_IMPORTS = 45
"""Pairs of rooms of which one imports the other."""


def rooms() -> dict[str, list[Path]]:
    """Return the Python files of each room, in the order of `BUDGETS`; a room without a budget comes last."""
    found: dict[str, list[Path]] = {name: [] for name in BUDGETS}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).parts
        if len(parts) > 1 and GENERATED not in file.read_text(encoding="utf-8").partition("\n")[0]:
            found.setdefault(parts[0], []).append(file)
    return found


@cache
def imported(file: Path) -> frozenset[str]:
    """Return the rooms that a file imports, also inside functions and for type checks."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "faultbridge" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
                yield parts[1]


def lines(file: Path) -> int:
    """Return the number of lines of a file."""
    return len(file.read_text(encoding="utf-8").splitlines())


def arrows(files: dict[str, list[Path]]) -> dict[str, set[str]]:
    """Return the other rooms that each room imports."""
    return {name: {room for file in found for room in imported(file)} - {name} for name, found in files.items()}


def main() -> int:
    """Print the table and return the exit status."""
    files = rooms()
    imports = arrows(files)
    print(f"{'room':10}{'modules':>8}{'lines':>8}{'budget':>8}   imports")
    total = modules = 0
    for name, found in files.items():
        size = sum(map(lines, found))
        total, modules = total + size, modules + len(found)
        print(f"{name:10}{len(found):8}{size:8}{BUDGETS.get(name, 0):8}   {' '.join(sorted(imports[name]))}")
    total += sum(map(lines, PACKAGE.glob("*.py")))
    summary = f"{sum(map(len, imports.values()))} imports between rooms of at most {MAX_IMPORTS}"
    print(f"{'in all':10}{modules:8}{total:8}{sum(BUDGETS.values()):8}   {summary}")
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        print(f"rooms import each other: {' -> '.join(error.args[1])}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
