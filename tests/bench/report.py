"""Reports benchmark figures: as a printed table, and as JSON in `build/bench/NAME.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"

Row = Mapping[str, Any]


def report(name: str, rows: Sequence[Row]) -> None:
    """Print rows as a table and write them to a file; nested values are only in the file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"\n{name}")
    for line in table_lines(
        [{key: value for key, value in row.items() if not isinstance(value, dict)} for row in rows]
    ):
        print(f"  {line}")


def table_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a table with a header; all columns but the first are right-aligned."""
    names = list(rows[0])
    lines = [names, *([f"{row[name]}" for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *others]).rstrip()
