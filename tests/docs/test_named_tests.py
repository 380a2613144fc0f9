"""The tests that the documentation names as evidence exist, under the name that it states."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
NAMED = sorted({found for page in PAGES for found in NAME.findall(page.read_text(encoding="utf-8"))})


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file, also of those in classes."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))


@for_each(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    assert name.startswith("test_")
    assert name in functions_of(path)


def test_each_defect_that_was_found_by_hand_has_a_test() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    section = page.split("## Defects that were found by hand\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")][2:]
    assert [row for row in rows if not NAME.search(row[2])] == []
    scripts = {one for row in rows for one in row[0].replace(",", " ").split()}
    assert scripts == {"one", "people", *(f"t{number}" for number in range(1, 27))}
