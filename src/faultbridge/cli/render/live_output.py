"""Prints output that grows while a command runs: table rows on stdout, a progress bar on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from faultbridge.cli.render.output import Columns, Document, print_line
from faultbridge.domain.safe_text import visible

MIN_WIDEST_COLUMN = 24
MIN_LAST_COLUMN = 30
MIN_ITEMS_FOR_BAR = 50


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yields the function that advances it by a number of items."""
    if not sys.stderr.isatty() or (total is not None and total < MIN_ITEMS_FOR_BAR):
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


def terminal_columns() -> int | None:
    """Return the width of the terminal in columns, or None where stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class LiveTable:
    """Prints each row when it arrives. On a terminal, a row that is too long is truncated."""

    def __init__(
        self, columns: Columns, widths: Sequence[int], terminal: Callable[[], int | None] = terminal_columns
    ) -> None:
        self._columns = columns
        self._terminal = terminal
        self._widths = (*_fit(widths, terminal()), *[0] * (len(columns) - len(widths)))
        self._has_heading = False

    def add(self, document: Document) -> None:
        """Print one row, and the column titles before the first row."""
        if not self._has_heading:
            self._has_heading = True
            self._print(list(self._columns))
        self._print([" ".join(visible(str(value(document) or "")).split()) for value in self._columns.values()])

    def _print(self, cells: Sequence[str]) -> None:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, self._widths, strict=True))
        line = "  ".join(padded).rstrip()
        max_width = self._terminal() or len(line)
        print_line(line if len(line) <= max_width else line[: max_width - 3] + "...", flush=True)


def _fit(widths: Sequence[int], terminal: int | None) -> Sequence[int]:
    """Shrink the widest column on a narrow terminal, so that the last column keeps 30 characters."""
    if terminal is None:
        return widths
    missing = max(0, sum(widths) + 2 * len(widths) + MIN_LAST_COLUMN - terminal)
    widest = max(widths)
    return [max(min(width, MIN_WIDEST_COLUMN), width - missing) if width == widest else width for width in widths]
