"""The tests that the documentation or the list of required tests names exist, under the name that it states."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\b(tests/[\w/]*\btest_\w+\.py)::(\w+)")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
DEFECTS = yaml.safe_load(Path(__file__).with_name("required_tests.yaml").read_text(encoding="utf-8"))


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file, also of those in classes."""
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))


def missing(texts: Iterable[str]) -> list[str]:
    """Return the names of tests in texts that are no test function of their file."""
    named = sorted({found for text in texts for found in NAME.findall(text)})
    return [f"{path}::{name}" for path, name in named if not name.startswith("test_") or name not in functions_of(path)]


def test_a_named_test_exists() -> None:
    assert missing(page.read_text(encoding="utf-8") for page in PAGES) == []


def test_each_defect_that_was_found_by_hand_has_a_test() -> None:
    assert len(DEFECTS) >= 26
    assert [row["defect"] for row in DEFECTS if not row["tests"] or missing(row["tests"])] == []
    assert all(NAME.fullmatch(name) for row in DEFECTS for name in row["tests"])


def test_a_test_that_does_not_exist_is_named() -> None:
    assert missing(["see tests/docs/test_named_tests.py::test_of_nothing"]) == [
        "tests/docs/test_named_tests.py::test_of_nothing"
    ]
