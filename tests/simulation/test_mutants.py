"""The mutants are made from the source as it is, and are other programs than it."""

from __future__ import annotations

import ast

import pytest

from tests.simulation.mutants.__main__ import main
from tests.simulation.mutants.catalogue import Mutant, mutants, mutated, source
from tests.simulation.mutants.report import PAGE, known, page

ALL = list(mutants())


def test_every_conditional_write_acknowledgement_and_watermark_has_its_mutant() -> None:
    kinds = {kind: sum(mutant.kind == kind for mutant in ALL) for kind in {mutant.kind for mutant in ALL}}
    assert kinds["condition dropped"] >= 15
    assert kinds["acknowledgement dropped"] >= 12
    assert kinds["comparison moved"] >= 60
    assert kinds["guard left out"] >= 40


@pytest.mark.parametrize("mutant", ALL[::7], ids=lambda mutant: mutant.name)
def test_a_mutant_is_another_program(mutant: Mutant) -> None:
    assert ast.dump(mutated(mutant.file, mutant.number)) != ast.dump(ast.parse(source(mutant.file)))


def test_what_is_known_to_live_still_exists() -> None:
    assert set(known()) <= {mutant.key for mutant in ALL}


def test_no_two_mutants_have_the_same_key() -> None:
    assert len({mutant.key for mutant in ALL}) == len(ALL)


def test_the_page_lists_those_that_are_known_to_live() -> None:
    now = PAGE.read_text(encoding="utf-8")
    assert page(now) == now, "run python -m tests.simulation.mutants.report"


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_mutants_are_noticed() -> None:
    assert main("") == 0
