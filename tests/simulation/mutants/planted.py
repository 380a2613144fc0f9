"""Bugs planted by hand, each of which all seeds and tests once missed: each is a replaced piece of source."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tests.simulation.mutants.catalog import Mutant, source


@dataclass(frozen=True, order=True)
class PlantedBug(Mutant):
    """A bug planted by hand: `old` source is replaced by `new` source, wherever it occurs in the file."""

    old: str = ""
    new: str = ""

    def tree(self) -> ast.Module:
        return ast.parse(source(self.file).replace(self.old, self.new))


def _planted(file: str, function: str, text: str, old: str, new: str) -> PlantedBug:
    line = source(file)[: source(file).find(old)].count("\n") + 1
    return PlantedBug(file, 0, line, function, "planted", text, old, new)


_TABLE = "adapters/dynamodb/table.py"
_ISOLATE = "repair/isolate.py"
PLANTED: tuple[PlantedBug, ...] = (
    _planted(
        "pipeline/decide/escalation.py",
        "raise_repair_action",
        "an approval survives a raise to another repair action",
        "unapproved, approval_over = drop_approval(case, now, text)",
        "unapproved, approval_over = (case, ())",
    ),
    _planted(
        "pipeline/fold/fold.py",
        "_apply",
        "a late clear of the old instance ends the condition of the new one",
        "if arrival.incarnation is IncarnationMatch.EARLIER:",
        "if arrival.incarnation is IncarnationMatch.EARLIER and not isinstance(observation, Clear):",
    ),
    _planted(_TABLE, "DynamoTable.get", "get is not consistent", ", ConsistentRead=True)", ")"),
    _planted(_TABLE, "DynamoTable._read", "batch get is not consistent", ', "ConsistentRead": True}}', "}}"),
    _planted(_TABLE, "DynamoTable.query", "query is not consistent", '{"ConsistentRead": True} if', "{} if"),
    _planted(
        "adapters/compute/ssm_commands.py",
        "comment_of",
        "tokens of attempts are cut and collide",
        "        return token\n",
        "        return token[:28]\n",
    ),
    _planted(
        _ISOLATE,
        "Isolate._held_by_breaker",
        "isolation trusts a breaker that was read before it opened",
        "return _breaker_holds(self.controls.read(state.key.cluster), state, ordered=ordered)",
        "return False",
    ),
)
