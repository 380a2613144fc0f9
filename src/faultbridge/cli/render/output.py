"""Prints documents: as tables for people, as JSON or JSON lines for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from faultbridge.domain.safe_text import visible

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonlFlag = Annotated[bool, typer.Option("--jsonl", help="Print one JSON object per line.")]

Document = Mapping[str, Any]
Columns = Mapping[str, Callable[[Document], object]]
"""The titles of a table, each with the function that reads its cell from a document."""

GAP = 2
MIN_LAST_WIDTH = 20


class OutputFormat(StrEnum):
    """How a command prints its result."""

    TABLE = "table"
    JSON = "json"
    JSON_LINES = "jsonl"


def print_line(text: str = "", *, to_stderr: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print a text. Terminal escapes and direction marks in it are shown and have no effect.

    Every other module of the command line prints through this function.
    """
    print(visible(text), file=sys.stderr if to_stderr else sys.stdout, end=end, flush=flush)


def examples(*lines: str) -> str:
    """Return the `Examples:` section of a command's help, one line for each example."""
    # Typer keeps the line breaks of a paragraph that starts with a backspace.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def format_of(*, as_json: bool, as_jsonl: bool) -> OutputFormat:
    """Return the format that the two flags select. Both flags together are wrong usage."""
    if as_json and as_jsonl:
        raise typer.BadParameter("conflicting options: --json and --jsonl; give one of them")
    return OutputFormat.JSON if as_json else OutputFormat.JSON_LINES if as_jsonl else OutputFormat.TABLE


def show(
    documents: Iterable[Document], columns: Columns, output: OutputFormat, *, empty: str = "nothing to list"
) -> None:
    """Print a list: a table of `columns`, or the full documents as JSON.

    Where a table has no rows, `empty` is printed on stderr instead.
    """
    if output is OutputFormat.JSON:
        print_line(json.dumps(list(documents), indent=2))
    elif output is OutputFormat.JSON_LINES:
        for document in documents:
            print_line(json.dumps(document))
    else:
        _print_table(list(documents), columns, empty)


def show_one(document: Document, columns: Columns, output: OutputFormat) -> None:
    """Print one document: a title and a value on each line, or the full document as JSON."""
    if output is not OutputFormat.TABLE:
        print_line(json.dumps(document, indent=2 if output is OutputFormat.JSON else None))
        return
    width = max(len(title) for title in columns)
    for title, value in columns.items():
        first, *more = _text(value(document)).split("\n")
        print_line(f"{title:<{width}}  {first}".rstrip())
        for line in more:
            print_line(f"{'':<{width}}  {line}".rstrip())


def notice(text: str) -> None:
    """Print a message on stderr. Only results go to standard output."""
    print_line(f"faultbridge: {text}", to_stderr=True)


def _print_table(documents: list[Document], columns: Columns, empty: str) -> None:
    rows = [[_text(value(document)) for value in columns.values()] for document in documents]
    if not rows:
        if empty:
            notice(empty)
        return
    if sys.stdout.isatty():
        _print_on_terminal(list(columns), rows)
        return
    rows = [list(columns), *([" ".join(cell.split()) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        print_line("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_on_terminal(titles: list[str], rows: list[list[str]]) -> None:
    """Fit a table to the terminal. Only the last column folds, so that ids stay complete."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title != titles[-1])
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    min_width = sum(widths[:-1]) + GAP * (len(widths) - 1) + min(widths[-1], MIN_LAST_WIDTH)
    console = Console()
    console.width = max(console.width, min_width)
    console.print(table)


_STYLES: Mapping[str, str] = {"fatal": "bold red", "error": "red", "warning": "yellow", "healthy": "green"}


def _text(value: object) -> str:
    return "-" if value is None or value == "" else visible(str(value))
