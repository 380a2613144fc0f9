"""A table that grows line by line, so that its columns have fixed widths."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.cli.output import Columns, Document


class LiveTable:
    """Prints each row as it comes; a text that is too wide pushes the rest of its own row only."""

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
        print("  ".join(padded).rstrip(), flush=True)
