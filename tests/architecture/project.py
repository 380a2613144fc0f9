"""Reads the repository as data: its modules, and what they import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "faultbridge"
FUNCTIONS = ROOT / "functions"
STATE_MACHINES = ROOT / "infra" / "statemachines"


def modules(*folders: Path) -> list[Path]:
    """Return every Python file under the folders, except caches."""
    found = [path for folder in folders for path in folder.rglob("*.py") if "__pycache__" not in path.parts]
    return sorted(found)


def production() -> list[Path]:
    """Return every Python file that is delivered or that builds what is delivered."""
    return modules(PACKAGE, FUNCTIONS, ROOT / "infra")


def relative(path: Path) -> str:
    """Return the path relative to the repository, as failures show it."""
    return path.relative_to(ROOT).as_posix()


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _statements(body: list[ast.stmt], *, at_once: bool = False) -> Iterator[ast.stmt]:
    """Yield every statement at any depth that may run; blocks for type checkers are left out.

    With `at_once`, functions are left out too: the rest runs as soon as the file is imported.
    """
    for node in body:
        if _is_type_checking(node):
            yield from _statements(node.orelse, at_once=at_once)  # type: ignore[attr-defined]  # an If has one
            continue
        yield node
        if at_once and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, []), at_once=at_once)
        for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from _statements(part.body, at_once=at_once)


@cache
def imports(path: Path, *, at_once: bool = False) -> frozenset[str]:
    """Return the dotted names that a file imports at the top or within functions; with `at_once` only those at the top.

    `from a.b import c` gives `a.b` and `a.b.c`: either may be the module.
    """
    names: set[str] = set()
    for node in _statements(parse(path).body, at_once=at_once):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = path.relative_to(PACKAGE.parent).with_suffix("").parts[: -node.level]
                base = ".".join([*above, *([base] if base else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def module_file(name: str) -> Path | None:
    """Return the file of one of our modules, or None for any other name."""
    stem = PACKAGE.parent.joinpath(*name.split("."))
    candidates = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def reachable(starts: list[Path], *, at_once: bool = False) -> dict[Path, Path | None]:
    """Return our files that importing the given files may load, each with a file that imports it."""
    asked_by: dict[Path, Path | None] = dict.fromkeys(starts)
    todo = list(starts)
    while todo:
        path = todo.pop()
        for name in imports(path, at_once=at_once):
            parts = name.split(".")
            for prefix in (".".join(parts[: n + 1]) for n in range(len(parts))):
                file = module_file(prefix)
                if file is not None and file not in asked_by:
                    asked_by[file] = path
                    todo.append(file)
    return asked_by


@cache
def lambda_files() -> dict[Path, Path | None]:
    """Return the files that handlers may load; decoders are imported by name, so all of them are included."""
    return reachable([*FUNCTIONS.glob("*/handler.py"), *modules(PACKAGE / "decode")])


def not_in_lambda() -> list[str]:
    """Return the parts of the package that the build leaves out of the functions."""
    rules = (ROOT / "infra" / "build.mk").read_text(encoding="utf-8")
    line = re.search(r"^NOT_IN_LAMBDA := (.+)$", rules, re.MULTILINE)
    assert line is not None
    return line[1].split()
