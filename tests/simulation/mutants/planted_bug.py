"""A bug planted by hand: a replaced piece of source."""

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


def planted(file: str, function: str, text: str, old: str, new: str) -> PlantedBug:
    line = source(file)[: source(file).find(old)].count("\n") + 1
    return PlantedBug(file, 0, line, function, "planted", text, old, new)
