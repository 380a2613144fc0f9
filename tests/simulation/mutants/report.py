"""Writes the list of known survivors into docs/mutants.md: `python -m tests.simulation.mutants.report`."""

from __future__ import annotations

import json
from pathlib import Path

KNOWN = Path(__file__).parent / "known.json"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "mutants.md"
BEGIN, END = "<!-- survivors: made from known.json -->", "<!-- /survivors -->"


def known() -> dict[str, str]:
    """The mutants that are known to live, by their keys, with the reason."""
    found: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8"))
    return found


def survivors() -> str:
    """The table of survivors, as the page has it."""
    explained = known()
    rows = [f"| `{key}` | {explained[key]} |" for key in sorted(explained)]
    return "\n".join([BEGIN, "", "| mutant | why it lives |", "|---|---|", *rows, "", END])


def page(now: str) -> str:
    """The page with the list as it should be."""
    before, rest = now.split(BEGIN, 1)
    return before + survivors() + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
