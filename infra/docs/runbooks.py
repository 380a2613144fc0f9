"""Heads of the runbooks: the states that lead to each, from the table of answers; the rest is written by hand.

The steps that depend on the settings of a cluster are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from faultbridge.decide.answers import Row, answer_table
from infra.docs.markdown import code, table

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
BEGIN = "<!-- From the table of answers, by `make docs-reference`. Do not edit. -->"
END = "<!-- End of what is from the table of answers. -->"
COLUMNS = ("State", "What happened", "What Faultbridge does", "What to do")


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


def pages() -> Mapping[str, Callable[[], str]]:
    """Return the runbooks of the table, by their path from the folder of generated pages."""
    names = sorted({row.runbook for row in answer_table().rows.values()})
    return {f"../runbooks/{name}.md": partial(_page, name) for name in names}


def _page(name: str) -> str:
    title, _, rest = (FOLDER / f"{name}.md").read_text(encoding="utf-8").partition("\n\n")
    written = rest.partition(f"{END}\n\n")[2] or rest
    rows = [_cells(state, row) for state, row in answer_table().rows.items() if row.runbook == name]
    return "\n\n".join((title, BEGIN, table(COLUMNS, rows), END, written))


def _cells(state: str, row: Row) -> tuple[str, ...]:
    names = _Names()
    commands = (code((step.command or "").format_map(names)) for step in row.you)
    steps = [f"{step.do.format_map(names)} {command}".strip() for step, command in zip(row.you, commands, strict=True)]
    return code(state), row.what.format_map(names), row.system.format_map(names), "<br>".join(steps) or "Nothing."
