"""A table that grows line by line, so that its columns have fixed widths."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence

from faultbridge.cli.output import Columns, Document

MIN_WIDTH = 24
LAST_WIDTH = 30


def terminal_columns() -> int | None:
    """Return how wide the terminal is, or None where nobody watches."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class LiveTable:
    """Prints each row as it comes; a wide text pushes the rest of its own row, and a terminal cuts it."""

    def __init__(
        self, columns: Columns, widths: Sequence[int], terminal: Callable[[], int | None] = terminal_columns
    ) -> None:
        self._columns = columns
        self._terminal = terminal
        self._widths = (*_fitted(widths, terminal()), *[0] * (len(columns) - len(widths)))
        self._headed = False

    def add(self, document: Document) -> None:
        """Print a row, with the headings before the first."""
        if not self._headed:
            self._headed = True
            self._print(list(self._columns))
        self._print([" ".join(str(value(document) or "").split()) for value in self._columns.values()])

    def _print(self, cells: Sequence[str]) -> None:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, self._widths, strict=True))
        line = "  ".join(padded).rstrip()
        most = self._terminal() or len(line)
        print(line if len(line) <= most else line[: most - 3] + "...", flush=True)


def _fitted(widths: Sequence[int], terminal: int | None) -> Sequence[int]:
    """Take from the widest column what the last one needs to say anything on a narrow terminal."""
    if terminal is None:
        return widths
    lacking = max(0, sum(widths) + 2 * len(widths) + LAST_WIDTH - terminal)
    widest = max(widths)
    return [max(min(width, MIN_WIDTH), width - lacking) if width == widest else width for width in widths]
