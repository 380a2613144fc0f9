"""Frame of CloudWatch Logs Insights: rows of a query result, and the CSV table that its console exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.line import Line, instance_of

_TABLE = lazy_pattern(r'\ufeff?(?:"?@?\w{1,64}"?,){0,32}"?@message"?(?:,"?@?\w{1,64}"?){0,32}\r?\n')
_CELL = lazy_pattern(r'(?:"([^"]*(?:""[^"]*)*)"|([^,\n]*?))(,|\r?\n|\Z)')


def is_table(head: str) -> bool:
    """Return whether a text starts like the CSV table that the CloudWatch Logs Insights console exports."""
    return _TABLE.match(head) is not None


def lines_of_table(text: str) -> Iterator[Line]:
    """Yield the log lines of a table. A row from which no message can be read is yielded as one line."""
    rows = _rows_of(text.removeprefix("\ufeff"))
    header = next(rows, [])
    for cells in rows:
        row = _row(dict(zip(header, cells, strict=True))) if len(cells) == len(header) else None
        if row is not None or any(cells):
            yield row or Line(",".join(cells))


def row_of_cells(row: list[Any]) -> Line | None:
    """Return the line in a row of a query result, which is a list of fields and values; None for another list."""
    return _row({str(cell.get("field")): cell.get("value") for cell in row if isinstance(cell, Mapping)})


def _rows_of(text: str) -> Iterator[list[str]]:
    cells: list[str] = []
    for found in _CELL.finditer(text):
        quoted = found[1]
        cells.append(found[2] if quoted is None else quoted.replace('""', '"'))
        if found[3] != ",":
            yield cells
            cells = []


def _row(cells: Mapping[str, Any]) -> Line | None:
    text = cells.get("@message")
    if not isinstance(text, str) or not text.strip():
        return None
    return Line(text, instant(cells.get("@timestamp")), instance_of(cells.get("@logStream")))
