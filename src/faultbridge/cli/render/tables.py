"""Print tables: complete in pipes and files, and fitted to the width of a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from faultbridge.cli.render.output import print_line

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
MIN_FOLDED_WIDTH = 16
EMPTY = "-"
STYLES: Mapping[str, str] = {
    "healthy": "green",
    "resolved": "green",
    "warning": "yellow",
    "degraded": "yellow",
    "error": "red",
    "quarantined": "red",
    "escalated": "red",
    "critical": "bold red",
    "fatal": "bold red",
    "failed": "bold red",
}
"""The style of a cell by its text. The environment variable NO_COLOR removes every style."""


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, fit: bool) -> list[str]:
    """Print a table; returns the titles of the columns that `fit` left out for a narrow terminal."""
    shown = fitting_columns(titles, rows, shutil.get_terminal_size().columns) if fit else list(range(len(titles)))
    kept = [[row[number] for number in shown] for row in (titles, *rows)]
    if sys.stdout.isatty():
        _print_on_terminal(kept[0], kept[1:])
    else:
        lines = [[" ".join(cell.split()) for cell in row] for row in kept]
        widths = _widths(lines)
        for line in lines:
            print_line((" " * GAP).join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
    return [title for number, title in enumerate(titles) if number not in shown]


def fitting_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], terminal: int) -> list[int]:
    """Return the indexes of the columns that fit a terminal; the first one always stays.

    Empty columns are left out first, then the last columns. Only a column with a cell of several words may fold.
    """
    shown = list(range(len(titles)))
    empty = [number for number in shown[1:] if all(row[number] in {"", EMPTY} for row in rows)]
    leave_out = [*reversed(empty), *(number for number in reversed(shown[1:]) if number not in empty)]
    while leave_out and _min_width([[row[number] for number in shown] for row in (titles, *rows)]) > terminal:
        shown.remove(leave_out.pop(0))
    return shown


def _min_width(lines: Sequence[Sequence[str]]) -> int:
    return _sum(_min_widths(lines))


def _min_widths(lines: Sequence[Sequence[str]], *, whole_words: bool = False) -> list[int]:
    """Return the smallest widths: a column that can fold needs a minimum, its title and perhaps its words."""
    widths = _widths(lines)
    for number, title in enumerate(lines[0]):
        cells = [line[number] for line in lines[1:]]
        if any(" " in cell for cell in cells):  # a cell with several words may continue on more lines
            longest = max((len(word) for cell in cells for word in cell.split()), default=0) if whole_words else 0
            widths[number] = min(widths[number], max(MIN_FOLDED_WIDTH, len(title), longest))
    return widths


def folded_widths(lines: Sequence[Sequence[str]], terminal: int) -> list[int]:
    """Return the widths for a terminal; a word is broken only if the longest words do not fit."""
    natural = _widths(lines)
    smallest = _min_widths(lines, whole_words=True)
    if _sum(smallest) > terminal:
        smallest = _min_widths(lines)
    missing = [most - least for most, least in zip(natural, smallest, strict=True)]
    free = max(0, min(terminal - _sum(smallest), sum(missing)))
    shares = [free * one // (sum(missing) or 1) for one in missing]
    shares[-1] += min(free - sum(shares), missing[-1] - shares[-1])
    return [least + share for least, share in zip(smallest, shares, strict=True)]


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(max(map(len, cell.split("\n"))) for cell in column) for column in zip(*lines, strict=True)]


def _print_on_terminal(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    console = Console()
    console.width = max(console.width, _min_width([titles, *rows]))
    console.print(styled_table(titles, rows, console.width))


def styled_table(titles: Sequence[str], rows: Sequence[Sequence[str]], terminal: int) -> Table:
    """Return a table with styles for a terminal of this width; only columns with several words fold."""
    from rich.table import Table
    from rich.text import Text

    styles = {} if os.environ.get("NO_COLOR") else STYLES
    table = Table(box=None, pad_edge=False, header_style="bold" if styles else "")
    for title, width in zip(titles, folded_widths([titles, *rows], terminal), strict=True):
        table.add_column(title, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return table
