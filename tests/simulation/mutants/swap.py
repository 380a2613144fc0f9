"""Replaces the code of functions in the running program, also where they are imported already."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from types import CodeType, FunctionType

from tests.simulation.mutants.catalog import PACKAGE, Mutant, source

Place = tuple[str, str]
"""A file of the package and a top-level function or method in it, as `Class.method`."""

COVERED = "__covered__"


def swap(mutant: Mutant, functions: Iterable[FunctionType]) -> None:
    """Put a mutant into these functions for good; raises LookupError if no function changed."""
    _load(mutant.file)
    unchanged, broken = _compiled(mutant.file, None), _compiled(mutant.file, mutant.tree())
    if not _exchange({old: new for old, new in _functions(unchanged, broken) if old != new}, functions):
        raise LookupError(f"the mutant changes no function: {mutant.name}")


@contextmanager
def coverage_recorded(files: Iterable[str], covered: set[Place]) -> Iterator[None]:
    """Record in `covered` which functions of the files run within the context."""
    changed: dict[CodeType, CodeType] = {}
    for file in files:
        setattr(_load(file), COVERED, covered)
        recording = ast.fix_missing_locations(CoverageRecorder(file).visit(ast.parse(source(file))))
        changed |= dict(_functions(_compiled(file, None), _compiled(file, recording)))
    _exchange(changed, functions_of_package())
    try:
        yield
    finally:
        _exchange({new: old for old, new in changed.items()}, functions_of_package())


def functions_of_package() -> list[FunctionType]:
    """Return the functions of the package in memory, so that a copy of this process need not search all its memory."""
    gc.unfreeze()  # gc.get_objects omits frozen objects, and the tests' conftest freezes
    return [one for one in gc.get_objects() if isinstance(one, FunctionType) and _is_of_package(one)]


class CoverageRecorder(ast.NodeTransformer):
    """Inserts a statement at the start of each top-level function that records the call."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._within: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        place = (self.file, ".".join((*self._within, node.name)))
        node.body.insert(0, ast.parse(f"{COVERED}.add({place!r})").body[0])
        return node


def _load(file: str) -> object:
    """Import the module of a file."""
    name = "faultbridge." + file.removesuffix(".py").replace("/", ".")
    importlib.import_module(name)
    return sys.modules[name]


def _compiled(file: str, tree: ast.Module | None) -> CodeType:
    return compile(source(file) if tree is None else tree, str(PACKAGE / file), "exec", dont_inherit=True)


def _is_of_package(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__", "")).startswith("faultbridge.")


def _exchange(changed: Mapping[CodeType, CodeType], functions: Iterable[FunctionType]) -> int:
    """Replace the code of functions; returns how many functions changed."""
    count = 0
    for one in functions:
        if (new := changed.get(one.__code__)) is not None:
            one.__code__ = new
            count += 1
    forget_results()
    return count


def forget_results() -> None:
    """Clear the bounded caches of the package, so that no remembered result stands for a changed function."""
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("faultbridge.")]
    caches = [one for names in modules for one in names.values() if hasattr(one, "cache_parameters")]
    for cache in caches:
        if cache.cache_parameters()["maxsize"] is not None:
            cache.cache_clear()


def _functions(unchanged: CodeType, other: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the pairs of top-level functions and methods of two versions of a module."""
    for old, new in zip(_codes(unchanged), _codes(other), strict=True):
        if _is_class(old):
            yield from _functions(old, new)
        else:
            yield old, new


def _codes(within: CodeType) -> Iterator[CodeType]:
    return (constant for constant in within.co_consts if isinstance(constant, CodeType))


def _is_class(code: CodeType) -> bool:
    """Return whether code is a class body: it starts by copying `__name__` to `__module__`."""
    return any(pair == ("__name__", "__module__") for pair in pairwise(code.co_names))
