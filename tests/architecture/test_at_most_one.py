"""The proof that nothing is replaced twice names code and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.project import ROOT
from tests.loops import for_each
from tests.sim.invariants import commit_checks
from tests.sim.invariants.catalog import INVARIANTS

PAGE = (ROOT / "docs" / "at-most-one.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)(?:::(\w+))?`", PAGE)))
SAID = sorted(set(re.findall(r'"([^"]+)"', PAGE)))


@for_each(("path", "name"), NAMED)
def test_what_the_proof_rests_on_exists(path: str, name: str) -> None:
    file = ROOT / path if path.startswith("tests/") else ROOT / "src" / "faultbridge" / path
    source = file.read_text(encoding="utf-8")
    assert not name or re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b", source, re.MULTILINE), (
        f"{path} has no {name}"
    )


@pytest.mark.parametrize("sentence", SAID)
def test_the_invariants_that_it_names_are_checked(sentence: str) -> None:
    at_every_call = Path(commit_checks.__file__).read_text(encoding="utf-8")
    assert sentence in {one.name for one in INVARIANTS} or f'"{sentence}"' in at_every_call
