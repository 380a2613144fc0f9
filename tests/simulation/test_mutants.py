"""The mutants are made from the source as it is, and are other programs than it."""

from __future__ import annotations

import ast
import gc

import pytest

from faultbridge.domain.times import truncate
from tests.builders import NOON
from tests.simulation.mutants.__main__ import judged, main
from tests.simulation.mutants.catalog import Mutant, mutants, mutated, source
from tests.simulation.mutants.player import Played
from tests.simulation.mutants.report import PAGE, known, page
from tests.simulation.mutants.swap import Place, watched

ALL = list(mutants())


def test_every_conditional_write_acknowledgement_and_watermark_has_its_mutant() -> None:
    kinds = {kind: sum(mutant.kind == kind for mutant in ALL) for kind in {mutant.kind for mutant in ALL}}
    assert kinds["condition dropped"] >= 30
    assert kinds["acknowledgement dropped"] >= 25
    assert kinds["write left out"] >= 35
    assert kinds["failure swallowed"] >= 20
    assert kinds["comparison moved"] >= 140
    assert kinds["comparison turned"] >= 70
    assert kinds["guard left out"] >= 40


@pytest.mark.parametrize("mutant", ALL[::7], ids=lambda mutant: mutant.name)
def test_a_mutant_is_another_program(mutant: Mutant) -> None:
    assert ast.dump(mutated(mutant.file, mutant.number)) != ast.dump(ast.parse(source(mutant.file)))


def test_functions_are_found_though_they_are_left_out_of_the_search_for_cycles() -> None:
    seen: set[Place] = set()
    gc.freeze()
    try:
        with watched(["domain/times.py"], seen):
            truncate(NOON)
    finally:
        gc.freeze()
    assert seen == {("domain/times.py", "truncate")}


def test_what_is_known_to_live_still_exists() -> None:
    assert set(known()) <= {mutant.key for mutant in ALL}


def test_what_is_known_to_live_changes_nothing_and_it_is_said_why() -> None:
    assert [key for key, reason in known().items() if not reason.startswith("equivalent: ")] == []


@pytest.mark.parametrize(
    ("alive", "explained", "code"),
    [(0, 0, 0), (1, 1, 0), (5, 5, 0), (6, 6, 1), (1, 0, 1), (0, 1, 1)],
    ids=["all noticed", "one explained", "95 in a hundred", "94", "one not explained", "one explained and noticed"],
)
def test_the_score_is_good_enough_when_those_that_live_are_few_and_explained(
    alive: int, explained: int, code: int
) -> None:
    mutants = [Mutant("a.py", number, 1, f"f{number}", "kind", "text") for number in range(100)]
    played = [Played(one, None if one.number < alive else "a test", 1, 0, 0.1) for one in mutants]
    assert judged(played, {one.key: "equivalent: " for one in mutants[:explained]}) == code


def test_no_two_mutants_have_the_same_key() -> None:
    assert len({mutant.key for mutant in ALL}) == len(ALL)


def test_the_page_lists_those_that_are_known_to_live() -> None:
    now = PAGE.read_text(encoding="utf-8")
    assert page(now) == now, "run python -m tests.simulation.mutants.report"


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_mutants_are_noticed() -> None:
    assert main("") == 0
