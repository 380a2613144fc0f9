"""Writes the known survivors into docs/mutants.md: `python -m tests.simulation.mutants.report`."""

from __future__ import annotations

import json
from pathlib import Path

KNOWN = Path(__file__).parent / "known.json"
GENERATED = Path(__file__).parent / "generated.json"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "mutants.md"


def known_survivors(file: Path = KNOWN) -> dict[str, str]:
    """Return the known survivors: the reason by the mutant's key."""
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def survivors_table(file: Path) -> str:
    """Return the table of survivors in Markdown, between the marks of its file."""
    explained = known_survivors(file)
    rows = [f"| `{key.replace('|', '/')}` | {explained[key]} |" for key in sorted(explained)]
    begin, end = _marks(file)
    return "\n".join([begin, "", "| mutant | why it survives |", "|---|---|", *rows, "", end])


def updated_page(page: str) -> str:
    """Return the page with the current tables of survivors."""
    for file in (KNOWN, GENERATED):
        begin, end = _marks(file)
        before, rest = page.split(begin, 1)
        page = before + survivors_table(file) + rest.split(end, 1)[1]
    return page


def _marks(file: Path) -> tuple[str, str]:
    """Return the marks before and after the table of a file."""
    return f"<!-- survivors: made from {file.name} -->", f"<!-- /survivors of {file.name} -->"


if __name__ == "__main__":
    PAGE.write_text(updated_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
