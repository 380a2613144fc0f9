"""Changes functions of the running program: they get other code, wherever somebody holds them already."""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from types import CodeType, FunctionType

from tests.simulation.mutants.catalog import PACKAGE, Mutant, mutated, source

Place = tuple[str, str]
"""A file below the package and an outermost function in it, as `Class.method`."""

SEEN = "__seen__"


def swap(mutant: Mutant) -> None:
    """Bring a mutant into the process, which plays it and ends. LookupError: nothing was changed."""
    _load(mutant.file)
    sound, broken = _compiled(mutant.file, None), _compiled(mutant.file, mutated(mutant.file, mutant.number))
    if not _exchange({old: new for old, new in _functions(sound, broken) if old != new}):
        raise LookupError(f"no function to change: {mutant.name}")


@contextmanager
def watched(files: Iterable[str], seen: set[Place]) -> Iterator[None]:
    """Let the functions of these files note that they ran."""
    changed: dict[CodeType, CodeType] = {}
    for file in files:
        setattr(_load(file), SEEN, seen)
        watching = ast.fix_missing_locations(Noting(file).visit(ast.parse(source(file))))
        changed |= dict(_functions(_compiled(file, None), _compiled(file, watching)))
    _exchange(changed)
    try:
        yield
    finally:
        _exchange({new: old for old, new in changed.items()})


class Noting(ast.NodeTransformer):
    """Lets each outermost function begin by saying that it runs."""

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
        node.body.insert(0, ast.parse(f"{SEEN}.add({place!r})").body[0])
        return node


def _load(file: str) -> object:
    name = "faultbridge." + file.removesuffix(".py").replace("/", ".")
    importlib.import_module(name)
    return sys.modules[name]


def _compiled(file: str, tree: ast.Module | None) -> CodeType:
    return compile(source(file) if tree is None else tree, str(PACKAGE / file), "exec", dont_inherit=True)


def _exchange(changed: Mapping[CodeType, CodeType]) -> int:
    hit = 0
    gc.unfreeze()  # what is frozen, as the tests' conftest does, is not among the objects
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and (new := changed.get(one.__code__)) is not None:
            one.__code__ = new
            hit += 1
    return hit


def _functions(sound: CodeType, other: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pair the outermost functions of two versions of a module."""
    for old, new in zip(_codes(sound), _codes(other), strict=True):
        if _is_class(old):
            yield from _functions(old, new)
        else:
            yield old, new


def _codes(within: CodeType) -> Iterator[CodeType]:
    return (constant for constant in within.co_consts if isinstance(constant, CodeType))


def _is_class(code: CodeType) -> bool:
    """Tell a class body from a function: it begins by taking over the module's name as `__module__`."""
    return any(pair == ("__name__", "__module__") for pair in pairwise(code.co_names))
