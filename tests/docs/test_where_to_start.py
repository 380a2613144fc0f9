"""The files that any page names exist, and so do the functions that it names in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGE = (ROOT / "docs" / "where-to-start.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`((?:\w+/)+\w+(?:\.asl)?\.(?:py|yaml))(?:::(\w+))?`")
FEWEST = 60
"""Number of files below which the expression above has probably stopped to match."""


def file_of(name: str) -> Path:
    """Return the path of a named file: from the root of the repository, the package or the simulation."""
    bases = (ROOT, ROOT / "src" / "faultbridge", ROOT / "tests" / "sim")
    return next((base / name for base in bases if (base / name).is_file()), ROOT / name)


def problems(text: str) -> list[str]:
    """Return each file that does not exist, and each name that is no function, method or class of its file."""
    found = []
    for name, function in NAMED.findall(text):
        path = file_of(name)
        if not path.is_file():
            found.append(name)
        elif function and function not in names_in(path):
            found.append(f"{name}::{function}")
    return found


def names_in(path: Path) -> set[str]:
    """Return the names of the functions, methods and classes of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_each_step_of_the_ten_journeys_exists() -> None:
    assert len(NAMED.findall(PAGE)) >= FEWEST
    assert problems(PAGE) == []


def test_each_file_that_a_page_names_exists() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
    assert {page: found for page, text in texts.items() if (found := problems(text))} == {}


def test_a_name_that_does_not_exist_is_found() -> None:
    assert problems("`decide/nothing.py` `decide/admit.py::nothing` `decide/admit.py::admit`") == [
        "decide/nothing.py",
        "decide/admit.py::nothing",
    ]
