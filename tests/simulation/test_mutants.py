"""The mutants are made from the source as it is, and are other programs than it."""

from __future__ import annotations

import ast
import json

import pytest

from tests.simulation.mutants.__main__ import KNOWN, main
from tests.simulation.mutants.catalogue import PACKAGE, Mutant, mutants, mutated

ALL = list(mutants())


def test_every_conditional_write_acknowledgement_and_watermark_has_its_mutant() -> None:
    kinds = {kind: sum(mutant.kind == kind for mutant in ALL) for kind in {mutant.kind for mutant in ALL}}
    assert kinds["condition dropped"] >= 15
    assert kinds["acknowledgement dropped"] >= 12
    assert kinds["comparison moved"] >= 35


@pytest.mark.parametrize("mutant", ALL[::7], ids=lambda mutant: mutant.name)
def test_a_mutant_is_another_program(mutant: Mutant) -> None:
    source = (PACKAGE / mutant.file).read_bytes()
    assert ast.dump(mutated(mutant.file, mutant.number)) != ast.dump(ast.parse(source))


def test_what_is_known_to_live_still_exists() -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    assert set(known) <= {mutant.key for mutant in ALL}


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_the_mutants_are_noticed() -> None:
    assert main("") == 0
