"""Limits on the size of functions and handlers. Ruff requires the docstrings: rules D100 to D106."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.project import FUNCTIONS, PACKAGE, ROOT, modules, parse, production, relative

MAX_FUNCTION = 50
MAX_HANDLER = 30

FILES = production()


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


# One test for all files: a test for each of a thousand files takes ten times as long as what it checks.


WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def test_every_function_class_and_constant_of_a_module_is_used_somewhere() -> None:
    # A decorator may register what it decorates: a command, a format, a codec.
    sources = [*FILES, *modules(ROOT / "tests"), *modules(ROOT / "examples")]
    mentioned = Counter(word for path in sources for word in WORD.findall(path.read_text(encoding="utf-8")))
    unused: list[str] = []
    for path in modules(PACKAGE):
        for node in parse(path).body:
            names = [one.id for one in getattr(node, "targets", ()) if isinstance(one, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
                names.append(node.name)
            unused += [f"{relative(path)}: {name}" for name in names if mentioned[name] == 1]
    assert unused == []


def test_a_function_fits_on_a_screen() -> None:
    functions = [
        (path, node)
        for path in FILES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lines = {
        f"{relative(path)}:{function.lineno} {function.name}": (function.end_lineno or function.lineno)
        - function.lineno
        + 1
        for path, function in functions
    }
    assert {name: count for name, count in lines.items() if count > MAX_FUNCTION} == {}


@pytest.mark.parametrize("path", sorted(FUNCTIONS.glob("*/handler.py")), ids=relative)
def test_a_handler_is_a_few_lines(path: Path) -> None:
    assert len(lines_of(path)) <= MAX_HANDLER


def test_ruff_asks_for_every_docstring_and_mypy_is_strict() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["ruff"]["lint"]["select"] == ["ALL"]
    assert not {"D100", "D101", "D102", "D103", "D104", "D106"} & set(tools["ruff"]["lint"]["ignore"])
    assert tools["mypy"]["strict"] is True


MARK = re.compile(r"# (?:noqa|type: ignore)(?::? ?[A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*|\[[a-z, -]+\])?")


def unexplained(line: str) -> bool:
    """Return whether a line disables a check without a reason."""
    mark = MARK.search(line)
    return mark is not None and not re.search(r"[A-Za-z]{2}", MARK.sub("", line[mark.start() :]))


def test_a_disabled_check_states_its_reason() -> None:
    assert [f"{relative(path)}: {line.strip()}" for path in FILES for line in lines_of(path) if unexplained(line)] == []


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("x = 1", False),
        ("x = 1  # noqa: S105", True),
        ("x = 1  # noqa: S105, N818", True),
        ("x = 1  # type: ignore[no-any-return]", True),
        ("x = 1  # noqa", True),
        ("x = 1  # noqa: S105 - the name of a variable", False),
        ("x = 1  # type: ignore[misc]  # a plugin's fault  # noqa: B009", False),
    ],
)
def test_a_mark_without_a_reason_is_detected(line: str, bare: bool) -> None:
    assert unexplained(line) is bare
