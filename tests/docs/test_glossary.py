"""The glossary has every term that a reader of the tutorial met without an explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GLOSSARY = (Path(__file__).resolve().parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^(\S[^\n]*)\n:   ((?:.+\n)(?:    .+\n)*)", GLOSSARY, re.MULTILINE))


@pytest.mark.parametrize(
    "term",
    ["Absorbed", "Canary", "Case", "Generation", "Incarnation", "Late", "Mode", "Points", "Shard", "Stream"],
)
def test_a_term_is_explained(term: str) -> None:
    assert len(ENTRIES[term].split()) >= 8


def test_no_term_has_two_entries() -> None:
    titles = re.findall(r"^(\S[^\n]*)\n:   ", GLOSSARY, re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(ENTRIES)
