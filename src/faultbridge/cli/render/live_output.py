"""Print output that grows while a command runs: table rows on stdout, a progress bar on stderr."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest

from faultbridge.cli.render.output import Columns, Document, print_line
from faultbridge.cli.render.wrap import terminal_columns
from faultbridge.domain.safe_text import visible

MIN_LAST_COLUMN = 40
MIN_COLUMN = 8
GAP = "  "
MIN_ITEMS_FOR_BAR = 50


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr, and yield a function that advances the bar by a number of items.

    `total` is the number of all items, or None if it is unknown. Without a terminal, or for a `total` below
    `MIN_ITEMS_FOR_BAR`, no bar is shown, and the function does nothing.
    """
    if not sys.stderr.isatty() or (total is not None and total < MIN_ITEMS_FOR_BAR):
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


class LiveTable:
    """A table that prints each row when it is added.

    On a terminal, a cell that is too long continues in the next lines of its column.
    """

    def __init__(
        self, columns: Columns, widths: Sequence[int], terminal: Callable[[], int | None] | None = None
    ) -> None:
        """Store the columns, and the widths of all columns but the last.

        `terminal` returns the width of the terminal, or None without a terminal. By default, it is the width of the
        terminal of stdout.
        """
        self._columns = columns
        width = terminal() if terminal else terminal_columns(sys.stdout)
        self._wraps = width is not None
        self._widths = (*widths, 0) if width is None else _fit(widths, width)
        self._has_heading = False

    def add(self, document: Document) -> None:
        """Print one row, and the column titles before the first row."""
        if not self._has_heading:
            self._has_heading = True
            self._print(list(self._columns))
        self._print([" ".join(visible(str(value(document) or "")).split()) for value in self._columns.values()])

    def _print(self, cells: Sequence[str]) -> None:
        columns = list(zip(cells, self._widths, strict=True))
        wrapped = [_wrap(cell, width) if self._wraps else [cell] for cell, width in columns]
        for parts in zip_longest(*wrapped, fillvalue=""):
            padded = (f"{part:<{width}}" for part, width in zip(parts, self._widths, strict=True))
            print_line(GAP.join(padded).rstrip(), flush=True)


def _wrap(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def _fit(widths: Sequence[int], terminal: int) -> tuple[int, ...]:
    """Return the widths of all columns: `widths`, and for the last column the width that is left.

    If less than `MIN_LAST_COLUMN` is left, the widest column becomes narrower: it and the last column share their width
    equally, and each has at least `MIN_COLUMN`.
    """
    rest = terminal - sum(widths) - len(GAP) * len(widths)
    if rest >= MIN_LAST_COLUMN:
        return (*widths, rest)
    widest = max(widths)
    half = (rest + widest) // 2
    shrunk = (max(MIN_COLUMN, half) if width == widest else width for width in widths)
    return (*shrunk, max(MIN_COLUMN, rest + widest - half))
