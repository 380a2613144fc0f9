"""Generates the mutants from the source code: each changes one condition, write, comparison or guard."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "faultbridge"
WRITING_ROOMS = (
    "archive", "gateway", "incidents", "ingest", "jobs", "ledger", "ops", "pager", "registry", "repair", "rules",
    "storage",
)  # fmt: skip
# Every room that writes, and the storage layouts. In the pager's rules, `when` is not a condition of a write.
WRITERS = tuple(
    sorted(
        path.relative_to(PACKAGE).as_posix()
        for folder in WRITING_ROOMS
        for path in (PACKAGE / folder).rglob("*.py")
        if path.name != "__init__.py" and not path.name.endswith("rules.py")
    )
)
WATERMARKS = (
    "pipeline/fold/fold.py",
    "pipeline/fold/node_conditions.py",
    "pipeline/fold/condition_updates.py",
    "pipeline/normalize/resolve.py",
    "pipeline/fold/expire.py",
    "pipeline/normalize/timestamp.py",
    "pipeline/fold/write_filter.py",
    "archive/archive_verification.py",
    "archive/schedule.py",
    "archive/retention.py",
    "archive/seal.py",
    "ingest/canary.py",
    "ingest/node_batch.py",
    "repair/isolate.py",
    "repair/isolate_many.py",
    "jobs/jobs.py",
    "repair/isolation_backoff.py",
    "pager/deliver.py",
    "pager/page_deduplication.py",
    "ingest/counter_store.py",
    "repair/steps/follow_provider.py",
    "repair/attempt/step_runner.py",
    "repair/steps/repair_in_place.py",
    "repair/attempt/verification_rules.py",
    "repair/steps/unverified.py",
    "repair/steps/verify_instance.py",
    "ledger/recover.py",
    "ingest/heartbeat_log.py",
    "ingest/heartbeat_monitor.py",
    "ledger/hash_chain.py",
)
# Intent, claim, fence, budget and close: in these files each guard is also removed.
GUARDED = (
    "repair/steps/release_instance.py",
    "repair/successor/launch.py",
    "repair/successor/claim.py",
    "repair/attempt/step_context.py",
    "repair/attempt/progress.py",
    "repair/steps/close_case.py",
    "repair/attempt/leaked_slots.py",
    "repair/spares/pool.py",
    "repair/spares/reconcile.py",
    "pipeline/decide/admit.py",
    "pipeline/decide/orchestrator_unreachable.py",
)
COMPARED = (*WATERMARKS, *GUARDED, "pipeline/decide/breaker.py")
# Calls that record something as done, failed or known; without them the caller assumes the opposite.
ACKNOWLEDGEMENTS = frozenset(
    {
        "result.give_back",
        "self._mark_done",
        "self.resume",
        "self.runner.resume",
        "self.poison_messages.clear",
        "result.set_outcome",
        "swept.failures.append",
        "result.failures.append",
        "result.late.append",
        "self._prove",
        "passed_over.add",
        "self.counter_store.write_alone",
        "self.node_cache.update",
        "self._mark_one_done",
        "self._marks.settle",
        "self._live.told",
        "self._live.summarized",
        "self.told.add",
        "self.told.discard",
        "self._stop_retries",
        "self.fence",
        "context.fence",
    }
)
RAISED_ERRORS = ("Transient", "Conflict", "InstanceTaken", "AttemptSuperseded", "StepAlreadyFinished", "_FaultAfter")
# Entry points whose result the calling AWS service evaluates.
ENTRY_POINTS = ("entrypoints/archive.py", "entrypoints/ingest.py")
BATCH_FAILURES = "batchItemFailures"
# Writes to the table; every service names its table `table`.
WRITES = ("table.write", "table.transact")
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


@dataclass(frozen=True, order=True)
class Mutant:
    """One mutant: file, number of the change in it, line, function, kind, and changed source text."""

    file: str
    number: int
    line: int
    function: str
    kind: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {self.text}"

    @property
    def key(self) -> str:
        """The identity of the mutant, which does not depend on its line."""
        return f"{self.file} {self.function} {self.kind}: {self.text}"

    def tree(self) -> ast.Module:
        """Return the syntax tree of the file with this change made."""
        return mutated(self.file, self.number)


class NumberedChanges(ast.NodeTransformer):
    """Lists all possible changes of a module as mutants of class `made`, or makes the change number `wanted`."""

    made: type[Mutant] = Mutant

    def __init__(self, file: str, wanted: int | None = None) -> None:
        self.file = file
        self.wanted = wanted
        self.found: list[Mutant] = []
        self._within: list[str] = []
        self._nested = 0
        self._same: Counter[tuple[str, str, str]] = Counter()

    def _is_wanted(self, node: ast.AST, kind: str, text: str) -> bool:
        """Add a possible change to the list; returns whether it is the wanted one."""
        number, function = len(self.found), ".".join(self._within)
        self._same[function, kind, text] += 1
        again = self._same[function, kind, text]
        unique = text if again == 1 else f"{text} ({again})"
        self.found.append(self.made(self.file, number, getattr(node, "lineno", 0), function, kind, unique))
        return number == self.wanted

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node


class Changes(NumberedChanges, ast.NodeTransformer):
    """The changes of conditions, writes, acknowledgements, comparisons and guards."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        # A nested function counts as part of its outer function.
        self._nested += 1
        if self._nested == 1:
            self._within.append(node.name)
        self.generic_visit(node)
        if self._nested == 1:
            self._within.pop()
        self._nested -= 1
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self.file in GUARDED and self._is_wanted(node, "guard left out", f"if {source_text(node.test)}"):
            node.test = ast.Constant(value=False)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self.file in WRITERS:
            for keyword in node.keywords:
                empty = isinstance(keyword.value, ast.Constant) and keyword.value.value is None
                if (
                    keyword.arg == "when"
                    and not empty
                    and self._is_wanted(node, "condition dropped", source_text(keyword))
                ):
                    keyword.value = ast.Constant(None)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        for kind, names in (("acknowledgement dropped", ACKNOWLEDGEMENTS), ("write left out", WRITES)):
            known = any(called == one or called.endswith(f".{one}") for one in names)
            if self.file in WRITERS and known and self._is_wanted(node, kind, source_text(node)):
                return ast.copy_location(ast.Pass(), node)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        for place, key in enumerate(node.keys):
            back = isinstance(key, ast.Constant) and key.value == BATCH_FAILURES
            if (
                self.file in ENTRY_POINTS
                and back
                and self._is_wanted(node, "acknowledgement dropped", source_text(node))
            ):
                node.values[place] = ast.List(elts=[], ctx=ast.Load())
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        raised = ast.unparse(node.exc) if node.exc else "the same again"
        is_known = node.exc is None or raised.startswith(RAISED_ERRORS)
        if (self.file in ENTRY_POINTS or (self.file in WRITERS and is_known)) and self._is_wanted(
            node, "failure swallowed", f"raise {raised}"[:80]
        ):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if self.file not in COMPARED:
            return node
        for place, operator in enumerate(node.ops):
            for kind, table in (("comparison moved", _FLIPPED), ("comparison turned", _OPPOSITE)):
                other = table.get(type(operator))
                if other is not None and self._is_wanted(node, kind, source_text(node)):
                    node.ops[place] = other()
        return node


def source_text(node: ast.AST) -> str:
    """Return the source of a node in one line, cut to 80 characters."""
    return " ".join(ast.unparse(node).split())[:80]


@cache
def source(file: str) -> str:
    """Return the source of a module, cached so that a long run uses one version of it."""
    return (PACKAGE / file).read_text(encoding="utf-8")


def mutants_of(file: str) -> list[Mutant]:
    """Return all mutants of one file."""
    changes = Changes(file)
    changes.visit(ast.parse(source(file)))
    return changes.found


def mutants() -> Iterator[Mutant]:
    """Yield all mutants, file by file."""
    for file in dict.fromkeys((*WRITERS, *COMPARED, *ENTRY_POINTS)):
        yield from mutants_of(file)


def mutated(file: str, number: int) -> ast.Module:
    """Return the syntax tree of a module with one change made."""
    tree = ast.parse(source(file))
    changed: ast.Module = Changes(file, number).visit(tree)
    return ast.fix_missing_locations(changed)
