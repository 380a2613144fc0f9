"""Generates mutants with general operators from every function of some rooms.

Operators: a comparison or an `is` or `in` is negated, a boundary is moved, `and` and `or` change places, a `not` is
left out, a number or a truth value changes, a call whose result is not used is left out, and branches change places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.mutants.catalog import PACKAGE, Mutant, NumberedChanges, source, source_text

ROOMS = ("domain/", "pipeline/", "repair/", "incidents/", "ledger/", "adapters/dynamodb/")
SSM_FILES = tuple(f"{name}.py" for name in ("dcgm_verifier", "log_bundle", "ssm_commands", "ssm_restart"))
LOGGING = ("log_cause", "_log", ".log", "_logger", "logging.")
"""Calls that only write logs; no mutant leaves them out."""

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@dataclass(frozen=True, order=True)
class GeneratedMutant(Mutant):
    """A mutant of the general operators."""

    def tree(self) -> ast.Module:
        tree = ast.parse(source(self.file))
        changed: ast.Module = _Operators(self.file, self.number).visit(tree)
        return ast.fix_missing_locations(changed)


class _Operators(NumberedChanges, ast.NodeTransformer):
    """The changes that the operators make within functions."""

    made = GeneratedMutant

    def _is_wanted(self, node: ast.AST, kind: str, text: str = "") -> bool:
        return bool(self._nested) and super()._is_wanted(node, kind, text or source_text(node)[:70])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Visit the body only: defaults and decorators run once, when the module is imported."""
        outermost = not self._nested
        if outermost:
            self._within.append(node.name)
        self._nested += 1
        node.body = [self.visit(statement) for statement in node.body]
        self._nested -= 1
        if outermost:
            self._within.pop()
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Leave the texts of errors alone."""
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Leave texts alone."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for place, operator in enumerate(node.ops):
            if self._is_wanted(node, "comparison negated"):
                node.ops[place] = _NEGATED[type(operator)]()
            boundary = _BOUNDARY.get(type(operator))
            if boundary is not None and self._is_wanted(node, "boundary moved"):
                node.ops[place] = boundary()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._is_wanted(node, "and/or swapped"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._is_wanted(node, "not left out"):
            return node.operand
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            return ast.Constant(not node.value) if self._is_wanted(node, "constant changed") else node
        if isinstance(node.value, int):
            return ast.Constant(node.value + 1) if self._is_wanted(node, "constant changed") else node
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if not isinstance(node.value, ast.Call):
            return node
        called = ast.unparse(node.value.func)
        if called.startswith(("super()", *LOGGING)) or called.endswith(LOGGING):
            return node  # without its only `super()`, a method has no cell of its class and cannot be swapped
        self.generic_visit(node)
        return ast.copy_location(ast.Pass(), node) if self._is_wanted(node, "call left out") else node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._is_wanted(node.test, "branches swapped"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self._is_wanted(node, "branches swapped"):
            node.body, node.orelse = node.orelse, node.body
        return node


def generated_of(file: str) -> list[Mutant]:
    """Return all generated mutants of one file."""
    operators = _Operators(file)
    operators.visit(ast.parse(source(file)))
    return operators.found


def generated() -> Iterator[Mutant]:
    """Yield all generated mutants of the rooms, file by file."""
    files = (path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    for file in files:
        if file.startswith(ROOMS) or (file.startswith("adapters/compute/") and file.endswith(SSM_FILES)):
            yield from generated_of(file)
