"""Mutants are generated from the current source and differ from it; known survivors are explained."""

from __future__ import annotations

import ast
import gc
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from faultbridge.domain.times import to_text, truncate
from tests.builders import NOON
from tests.simulation.mutants.__main__ import exit_code, main
from tests.simulation.mutants.catalog import Mutant, mutants, mutated, source
from tests.simulation.mutants.generated import generated
from tests.simulation.mutants.planted import PLANTED, PlantedBug
from tests.simulation.mutants.report import GENERATED, KNOWN, PAGE, known_survivors, updated_page
from tests.simulation.mutants.runner import Result
from tests.simulation.mutants.sample import drawn
from tests.simulation.mutants.swap import Place, coverage_recorded


@cache
def every_mutant() -> list[Mutant]:
    """Return the mutants of the catalog, made at first use: most test processes need none of them."""
    return list(mutants())


@cache
def every_generated() -> list[Mutant]:
    """Return the mutants of the general operators."""
    return list(generated())


@cache
def program(file: str) -> str:
    """Return the syntax tree of a file as text."""
    return ast.dump(ast.parse(source(file)))


def test_every_conditional_write_acknowledgement_and_watermark_has_its_mutant() -> None:
    kinds = Counter(mutant.kind for mutant in every_mutant())
    assert kinds["condition dropped"] >= 30
    assert kinds["acknowledgement dropped"] >= 25
    assert kinds["write left out"] >= 35
    assert kinds["failure swallowed"] >= 20
    assert kinds["comparison moved"] >= 140
    assert kinds["comparison turned"] >= 70
    assert kinds["guard left out"] >= 40


def test_a_mutant_is_another_program() -> None:
    some = every_mutant()[::7]
    assert len(some) > 80
    assert [one.name for one in some if ast.dump(mutated(one.file, one.number)) == program(one.file)] == []


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.text)
def test_a_planted_bug_is_another_program(bug: PlantedBug) -> None:
    assert bug.old in source(bug.file)
    assert ast.dump(bug.tree()) != program(bug.file)


def test_a_generated_mutant_is_another_program() -> None:
    some = drawn(every_generated(), 40, 7)
    assert [mutant.key for mutant in some if ast.dump(mutant.tree()) == program(mutant.file)] == []


def test_the_generated_mutants_cover_each_room_and_each_operator() -> None:
    found = every_generated()
    rooms = {"adapters", "domain", "incidents", "ledger", "pipeline", "repair"}
    assert {mutant.file.split("/")[0] for mutant in found} == rooms
    assert len({mutant.kind for mutant in found}) == 7
    assert len({mutant.key for mutant in found}) == len(found) > 2000


def test_the_same_seed_draws_the_same_sample() -> None:
    found = every_generated()
    assert drawn(found, 20, 1) == drawn(found, 20, 1) != drawn(found, 20, 2)


def test_functions_frozen_by_the_garbage_collector_are_found() -> None:
    covered: set[Place] = set()
    gc.freeze()
    try:
        with coverage_recorded(["domain/times.py"], covered):
            truncate(NOON)
    finally:
        gc.freeze()
    assert covered == {("domain/times.py", "truncate")}


def test_no_remembered_result_hides_a_function() -> None:
    to_text(NOON)
    covered: set[Place] = set()
    with coverage_recorded(["domain/times.py"], covered):
        to_text(NOON)
    assert covered == {("domain/times.py", "to_text")}


def test_every_known_survivor_still_exists() -> None:
    assert set(known_survivors()) <= {mutant.key for mutant in every_mutant()}
    assert set(known_survivors(GENERATED)) <= {mutant.key for mutant in every_generated()}


@pytest.mark.parametrize("file", [KNOWN, GENERATED], ids=lambda file: file.name)
def test_every_known_survivor_is_explained_as_equivalent(file: Path) -> None:
    assert [key for key, reason in known_survivors(file).items() if not reason.startswith("equivalent: ")] == []


@pytest.mark.parametrize(
    ("survivors", "explained", "code"),
    [(0, 0, 0), (1, 1, 0), (5, 5, 0), (6, 6, 1), (1, 0, 1), (0, 1, 1)],
    ids=["all detected", "one explained", "95 of 100", "94 of 100", "one not explained", "one explained but detected"],
)
def test_the_score_suffices_if_the_survivors_are_few_and_explained(survivors: int, explained: int, code: int) -> None:
    mutants = [Mutant("a.py", number, 1, f"f{number}", "kind", "text") for number in range(100)]
    results = [Result(one, None if one.number < survivors else "a test", 1, 0, 0.1) for one in mutants]
    assert exit_code(results, {one.key: "equivalent: " for one in mutants[:explained]}) == code


def test_no_two_mutants_have_the_same_key() -> None:
    assert len({mutant.key for mutant in every_mutant()}) == len(every_mutant())


def test_the_page_lists_the_known_survivors() -> None:
    now = PAGE.read_text(encoding="utf-8")
    assert updated_page(now) == now, "run python -m tests.simulation.mutants.report"


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_mutants_are_detected() -> None:
    assert main("") == 0
