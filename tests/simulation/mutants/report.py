"""Writes the known survivors into docs/mutants.md: `python -m tests.simulation.mutants.report`."""

from __future__ import annotations

import json
from pathlib import Path

KNOWN = Path(__file__).parent / "known.json"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "mutants.md"
BEGIN, END = "<!-- survivors: made from known.json -->", "<!-- /survivors -->"


def known_survivors() -> dict[str, str]:
    """Return the known survivors: the reason by the mutant's key."""
    found: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return found


def survivors_table() -> str:
    """Return the table of survivors in Markdown."""
    explained = known_survivors()
    rows = [f"| `{key}` | {explained[key]} |" for key in sorted(explained)]
    return "\n".join([BEGIN, "", "| mutant | why it survives |", "|---|---|", *rows, "", END])


def updated_page(page: str) -> str:
    """Return the page with the current table of survivors."""
    before, rest = page.split(BEGIN, 1)
    return before + survivors_table() + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(updated_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
