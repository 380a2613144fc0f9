"""Prints docstrings of the package drawn at random, for a reader who judges whether each is clear at first reading.

A function is printed with its signature, because editors and `help` show both together.

python -m tests.architecture.docstrings --seed 1 --count 120
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.architecture.project import PACKAGE, modules, parse, relative


class Documented(NamedTuple):
    """One docstring: its path, line and text, and the module, class or function with its qualified name."""

    path: str
    line: int
    name: str
    text: str
    node: ast.AST

    @property
    def title(self) -> str:
        """Return the qualified name with the signature; `(module)` for a module."""
        return f"{self.name}{_signature(self.node)}" or "(module)"


def docstrings() -> Iterator[Documented]:
    """Yield each docstring of a module, class or function of the package."""
    for path in modules(PACKAGE):
        yield from _within(parse(path), relative(path), "")


def _within(node: ast.AST, path: str, prefix: str) -> Iterator[Documented]:
    name = prefix
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        own = "" if isinstance(node, ast.Module) else node.name
        name = ".".join(filter(None, (prefix, own)))
        text = ast.get_docstring(node)
        if text:
            yield Documented(path, getattr(node, "lineno", 1), name, text, node)
    for child in ast.iter_child_nodes(node):
        yield from _within(child, path, name)


def _signature(node: ast.AST) -> str:
    """Return the parameters of a function and the type of its result, as the source has them; nothing for others."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){result}"


def main(arguments: list[str]) -> int:
    """Print the sample; the same seed and tree give the same sample."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.docstrings", description="sample docstrings")
    parser.add_argument("--seed", type=int, default=1, help="number that selects the sample")
    parser.add_argument("--count", type=int, default=120, help="number of docstrings")
    options = parser.parse_args(arguments)
    every = list(docstrings())
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    for number, one in enumerate(chosen, 1):
        indented = "\n".join(f"    {line}" if line else "" for line in one.text.splitlines())
        print(f"{number}. {one.path}:{one.line} {one.title}\n{indented}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
