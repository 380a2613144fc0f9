"""Plays the mutants and prints the score: `python -m tests.simulation.mutants [part of a file's name]`.

Exit code 0 when 95 in a hundred or more are noticed and those that live are the ones that `known.json` explains, no
more and no fewer; else 1. 2 when something is broken without any mutant.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping

import pytest

from tests.simulation.mutants.catalog import mutants
from tests.simulation.mutants.player import Played, Player
from tests.simulation.mutants.report import known

LEAST = 0.95
REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"
TESTS = (
    "tests/pipeline",
    "tests/services",
    "tests/scenarios",
    "tests/domain",
    "tests/storage",
)


def main(part: str) -> int:
    """Play those of the files whose name has the part."""
    gc.set_threshold(100_000, 50, 10)
    player = Player([mutant for mutant in mutants() if part in mutant.file])
    options = ["-qq", "--no-header", "-p", "no:cacheprovider", "-o", "timeout=0", "--capture=sys", "-W", REWRITTEN]
    pytest.main([*options, *TESTS], plugins=[player])
    for line in player.unsound:
        print(f"nothing is broken, and yet: {line}")
    if player.unsound or not player.played:
        return 2
    return judged(player.played, known())


def judged(played: list[Played], explained: Mapping[str, str]) -> int:
    """Print the score; 1 when it is not enough, or when what lives is not what is known and explained to live."""
    alive = {one.mutant.key for one in played if one.noticed is None}
    print(f"{len(played) - len(alive)} of {len(played)} noticed, {sum(one.seconds for one in played):.0f} s")
    for mutant in (one.mutant for one in played if one.noticed is None):
        print(f"alive: {mutant.key} (line {mutant.line}): {explained.get(mutant.key, 'NOT EXPLAINED')}")
    wrong = alive ^ {one.mutant.key for one in played if one.mutant.key in explained}
    for key in sorted(wrong - alive):
        print(f"explained, and noticed: {key}")
    return int(bool(wrong) or len(alive) > (1 - LEAST) * len(played))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
