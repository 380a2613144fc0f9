"""Output for people and for scripts: an aligned table, one JSON document, or one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonlFlag = Annotated[bool, typer.Option("--jsonl", help="Print one JSON object a line.")]

Document = Mapping[str, Any]
Columns = Mapping[str, Callable[[Document], object]]


GAP = 2
MIN_LAST = 20


class Form(StrEnum):
    """How to print: for people, as one JSON document, as JSON lines."""

    PEOPLE = "people"
    JSON = "json"
    JSONL = "jsonl"


def form_of(*, as_json: bool, as_jsonl: bool) -> Form:
    """Return the form that the two flags ask for; both at once is wrong usage."""
    if as_json and as_jsonl:
        raise typer.BadParameter("--json and --jsonl exclude each other")
    return Form.JSON if as_json else Form.JSONL if as_jsonl else Form.PEOPLE


def show(documents: Iterable[Document], columns: Columns, form: Form, *, empty: str = "nothing to list") -> None:
    """Print a list: a table of `columns` for people, who are told when it is `empty`, else the documents whole."""
    if form is Form.JSON:
        print(json.dumps(list(documents), indent=2))
    elif form is Form.JSONL:
        for document in documents:
            print(json.dumps(document))
    else:
        _table(list(documents), columns, empty)


def show_one(document: Document, columns: Columns, form: Form) -> None:
    """Print one thing: a name and a value a line for people, else the document whole."""
    if form is Form.PEOPLE:
        width = max(len(title) for title in columns)
        for title, value in columns.items():
            first, *more = _text(value(document)).split("\n")
            print(f"{title:<{width}}  {first}".rstrip())
            for line in more:
                print(f"{'':<{width}}  {line}".rstrip())
    else:
        print(json.dumps(document, indent=2 if form is Form.JSON else None))


def notice(text: str) -> None:
    """Say something to the person at the terminal without touching the output."""
    print(f"faultbridge: {text}", file=sys.stderr)


def _table(documents: list[Document], columns: Columns, empty: str) -> None:
    rows = [[_text(value(document)) for value in columns.values()] for document in documents]
    if not rows:
        if empty:
            notice(empty)
        return
    if sys.stdout.isatty():
        _coloured(list(columns), rows)
        return
    rows = [list(columns), *([" ".join(cell.split()) for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _coloured(titles: list[str], rows: list[list[str]]) -> None:
    """Fit a table to the terminal: the last column folds, the others stay whole, for an id that is cut is no id."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title != titles[-1])
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    least = sum(widths[:-1]) + GAP * (len(widths) - 1) + min(widths[-1], MIN_LAST)
    console = Console()
    console.width = max(console.width, least)
    console.print(table)


_STYLES: Mapping[str, str] = {"fatal": "bold red", "error": "red", "warning": "yellow", "healthy": "green"}


def _text(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
