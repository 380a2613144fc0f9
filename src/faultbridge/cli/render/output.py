"""Print documents: as tables for people, and as JSON or JSON lines for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from faultbridge.cli.render.wrap import terminal_columns, wrapped
from faultbridge.domain.safe_text import visible

Document = Mapping[str, Any]
Columns = Mapping[str, Callable[[Document], object]]
"""The titles of a table, each with the function that reads its cell from a document."""


class OutputFormat(StrEnum):
    """The format in which a command prints its result."""

    TABLE = "table"
    WIDE_TABLE = "wide_table"
    JSON = "json"
    JSON_LINES = "jsonl"

    @property
    def for_people(self) -> bool:
        """Return whether the output is a table for people, and not JSON for scripts."""
        return self in {OutputFormat.TABLE, OutputFormat.WIDE_TABLE}


def print_line(text: str = "", *, to_stderr: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print a line of text, in which terminal escapes and text direction marks are shown as visible text.

    Escapes and marks therefore have no effect on a terminal. `end` and `flush` are passed to `print`.
    """
    print(visible(text), file=sys.stderr if to_stderr else sys.stdout, end=end, flush=flush)


def examples(*lines: str) -> str:
    """Return the `Examples:` section of a command's help, one line for each example."""
    # Typer keeps the line breaks of a paragraph that starts with a backspace.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def show(
    documents: Iterable[Document], columns: Columns, output: OutputFormat, *, empty: str = "nothing to list"
) -> None:
    """Print a list of documents: as a table of `columns`, or as complete JSON documents.

    If the table has no rows, `empty` is printed on stderr instead.
    """
    if output is OutputFormat.JSON:
        print_line(json.dumps(list(documents), indent=2))
    elif output is OutputFormat.JSON_LINES:
        for document in documents:
            print_line(json.dumps(document))
    else:
        _show_rows(
            [[cell_text(value(document)) for value in columns.values()] for document in documents],
            columns,
            output,
            empty,
        )


def show_one(document: Document, columns: Columns, output: OutputFormat) -> None:
    """Print one document: one line per column with its title and value, or the complete document as JSON."""
    if not output.for_people:
        print_line(json.dumps(document, indent=2 if output is OutputFormat.JSON else None))
        return
    width = max(len(title) for title in columns)
    terminal = terminal_columns(sys.stdout) if output is OutputFormat.TABLE else None
    for title, value in columns.items():
        for number, line in enumerate(cell_text(value(document)).split("\n")):
            label = f"{'' if number else title:<{width}}  "
            print_line(wrapped(label + line, terminal, indent=len(label)).rstrip())


def filled(columns: Columns, document: Document) -> Columns:
    """Return only the columns that have a value in a document.

    Commands use this function to show a new object, most fields of which have no value yet.
    """
    return {title: value for title, value in columns.items() if cell_text(value(document)) != cell_text(None)}


def notice(text: str) -> None:
    """Print a message on stderr, wrapped to the terminal; only results go to standard output."""
    print_line(wrapped(f"faultbridge: {text}", terminal_columns(sys.stderr), indent=2), to_stderr=True)


def _show_rows(rows: list[list[str]], columns: Columns, output: OutputFormat, empty: str) -> None:
    if rows:
        from faultbridge.cli.render.tables import print_table

        hidden = print_table(list(columns), rows, fit=output is OutputFormat.TABLE and sys.stdout.isatty())
        if hidden:
            notice(f"columns that do not fit this terminal: {', '.join(hidden)}; --wide prints them")
    elif empty:
        notice(empty)


def cell_text(value: object) -> str:
    """Return the text of one table cell; an empty cell becomes `-`."""
    return "-" if value is None or value == "" else visible(str(value))
