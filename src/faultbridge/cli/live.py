"""A table that grows line by line, so that its columns have fixed widths."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from faultbridge.cli.output import Columns, Document


class LiveTable:
    """Prints each row as it comes; a wide text pushes the rest of its own row, and a terminal cuts it."""

    def __init__(self, columns: Columns, widths: Sequence[int]) -> None:
        self._columns = columns
        self._widths = (*widths, *[0] * (len(columns) - len(widths)))
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
        most = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
        print(line if len(line) <= most else line[: most - 3] + "...", flush=True)
