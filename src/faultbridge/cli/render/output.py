"""Print documents: as tables for people, and as JSON or JSON lines for scripts."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from typing import Any, TextIO

from msgspec import Struct

from faultbridge.cli.render.times import short_time, stated_time, zone_name
from faultbridge.model.event_data import json_text
from faultbridge.model.safe_text import visible
from faultbridge.model.times import to_text

# A command in backquotes stays on one line of wrapped text, so that it can be copied.

_COMMAND = re.compile(r"`[^`\n]*`")
_JOINED = "\N{NO-BREAK SPACE}"


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal in columns, or None if the stream is not a terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, terminal: int | None, indent: int) -> str:
    """Wrap a text at words to the width of the terminal, if there is one; later lines are indented."""
    if terminal is None or len(text) <= terminal:
        return text
    joined = _COMMAND.sub(lambda found: found[0].replace(" ", _JOINED), text)
    options: Any = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    lines = textwrap.wrap(joined, terminal, subsequent_indent=" " * indent, **options)
    return "\n".join(lines).replace(_JOINED, " ")


Document = Mapping[str, Any]
Shown = Document | Struct
"""What can be printed: a JSON object, or a structure such as a document of the API."""

Columns = dict[str, Callable[[Any], object]]
"""The titles of a table, each with the function that reads its cell from a document."""

FORMATS: Mapping[str, Callable[[Any], object]] = {
    "": lambda value: value,
    "at": stated_time,
    "len": len,
    "lines": "\n".join,
    "list": ", ".join,
    "time": short_time,
    "yes": lambda value: "yes" if value else "no",
}


def fields(titles: str) -> Columns:
    """Return columns of fields, in the order of their titles, which commas separate.

    `REPAIR OWNER` shows `repair_owner`, `CASE=case_id` shows `case_id`, and `UNTIL:time` shows a time (see `FORMATS`).
    """
    return dict(map(_field, titles.split(", ")))


def _field(text: str) -> tuple[str, Callable[[Any], object]]:
    left, _, form = text.partition(":")
    title, _, name = left.partition("=")
    return title, partial(_value, name or title.lower().replace(" ", "_"), FORMATS[form])


def _value(name: str, form: Callable[[Any], object], document: Shown) -> object:
    return form(getattr(document, name) if isinstance(document, Struct) else document[name])


class OutputFormat(StrEnum):
    """The format in which a command prints its result."""

    TABLE = "table"
    WIDE_TABLE = "wide"
    JSON = "json"
    JSON_LINES = "jsonl"
    YAML = "yaml"

    @property
    def for_people(self) -> bool:
        """Return whether the output is a table for people, and not JSON for scripts."""
        return self in {OutputFormat.TABLE, OutputFormat.WIDE_TABLE}


def print_line(text: str = "", *, to_stderr: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print a line, in which terminal escapes and text direction marks have no effect."""
    print(visible(text), file=sys.stderr if to_stderr else sys.stdout, end=end, flush=flush)


def show(documents: Iterable[Shown], columns: Columns, output: OutputFormat, *, empty: str = "nothing to list") -> None:
    """Print documents as a table of `columns`, or as JSON; `empty` is printed on stderr for an empty table."""
    if output is OutputFormat.JSON_LINES:
        for document in documents:
            print_line(json_text(document))
    elif not output.for_people:
        print_document(list(documents), output)
    else:
        rows = [[cell_text(value(document)) for value in columns.values()] for document in documents]
        hidden = print_table(_titles(columns), rows, fit=output is OutputFormat.TABLE) if rows else []
        if hidden:
            notice(f"columns that do not fit this terminal: {', '.join(hidden)}; --wide prints them")
        elif empty and not rows:
            notice(empty)


def show_one(document: Shown, columns: Columns, output: OutputFormat) -> None:
    """Print one document: one line per column with its title and value, or the complete document as JSON."""
    if not output.for_people:
        print_document(document, output)
        return
    width = max(len(title) for title in columns)
    terminal = terminal_columns(sys.stdout) if output is OutputFormat.TABLE else None
    for title, value in columns.items():
        for number, line in enumerate(cell_text(value(document)).split("\n")):
            label = f"{'' if number else title:<{width}}  "
            print_line(wrapped(label + line, terminal, indent=len(label)).rstrip())


def print_document(document: object, output: OutputFormat) -> None:
    """Print any document as JSON or YAML."""
    if output is not OutputFormat.YAML:
        print_line(json_text(document, indent=2 if output is OutputFormat.JSON else None))
        return
    import json

    import yaml

    plain = json.loads(json_text(document))
    print_line(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110), end="")


def filled(columns: Columns, document: Shown) -> Columns:
    """Return only the columns that have a value in a document, for a new and mostly empty object."""
    return {title: value for title, value in columns.items() if cell_text(value(document)) != cell_text(None)}


def notice(text: str) -> None:
    """Print a message on stderr, wrapped to the terminal; only results go to standard output."""
    print_line(wrapped(f"faultbridge: {text}", terminal_columns(sys.stderr), indent=2), to_stderr=True)


def _titles(columns: Columns) -> list[str]:
    """Return the titles, with the zone in which the times are printed."""
    return [title.replace("(UTC)", f"({zone_name()})") if "(UTC)" in title else title for title in columns]


def cell_text(value: object) -> str:
    """Return the text of one table cell; an empty cell becomes `-`."""
    if isinstance(value, datetime):
        return to_text(value)
    return "-" if value is None or value == "" else visible(str(value))


MIN_LAST_COLUMN = 40
MIN_COLUMN = 8
GAP = "  "
MIN_ITEMS_FOR_BAR = 50


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr on a terminal, and yield a function that advances it."""
    if not sys.stderr.isatty() or (total is not None and total < MIN_ITEMS_FOR_BAR):
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


class LiveTable:
    """A table that prints each row when it is added; long cells continue in their column."""

    def __init__(
        self, columns: Columns, widths: Sequence[int], terminal: Callable[[], int | None] | None = None
    ) -> None:
        """Store the widths of all columns but the last; `terminal` returns None without a terminal."""
        self._columns = columns
        width = terminal() if terminal else terminal_columns(sys.stdout)
        self._wraps = width is not None
        self._widths = (*widths, 0) if width is None else _fit(widths, width)
        self._has_heading = False

    def add(self, document: Shown) -> None:
        """Print one row, and the column titles before the first row."""
        if not self._has_heading:
            self._has_heading = True
            self._print(_titles(self._columns))
        self._print([" ".join(visible(str(value(document) or "")).split()) for value in self._columns.values()])

    def _print(self, cells: Sequence[str]) -> None:
        columns = list(zip(cells, self._widths, strict=True))
        wrap = partial(textwrap.wrap, break_on_hyphens=False)
        wrapped = [(wrap(cell, width) or [""]) if self._wraps else [cell] for cell, width in columns]
        for parts in zip_longest(*wrapped, fillvalue=""):
            padded = (f"{part:<{width}}" for part, width in zip(parts, self._widths, strict=True))
            print_line(GAP.join(padded).rstrip(), flush=True)


def _fit(widths: Sequence[int], terminal: int) -> tuple[int, ...]:
    """Return all widths; the widest and the last column share too little room, at least `MIN_COLUMN` each."""
    rest = terminal - sum(widths) - len(GAP) * len(widths)
    if rest >= MIN_LAST_COLUMN:
        return (*widths, rest)
    widest = max(widths)
    half = (rest + widest) // 2
    shrunk = (max(MIN_COLUMN, half) if width == widest else width for width in widths)
    return (*shrunk, max(MIN_COLUMN, rest + widest - half))


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "reason", "taskName"}


class LogLines(logging.Handler):
    """A log handler that writes one line of printable characters per log record to a stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record as a line, and flush the stream."""
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        ids = "".join(f" {name}={value}" for name, value in fields.items())
        at = to_text(datetime.fromtimestamp(record.created, UTC))
        line = f"{at} {record.levelname} {record.getMessage()}: {getattr(record, 'reason', '')}{ids}"
        self._stream.write("".join(one if one.isprintable() else " " for one in line) + "\n")
        self._stream.flush()


MIN_FOLDED_WIDTH = 16
EMPTY = "-"
STYLES: Mapping[str, str] = {
    "healthy": "green",
    "resolved": "green",
    "warning": "yellow",
    "degraded": "yellow",
    "error": "red",
    "quarantined": "red",
    "escalated": "red",
    "critical": "bold red",
    "fatal": "bold red",
    "failed": "bold red",
}
"""The style of a cell by its text. The environment variable NO_COLOR removes every style."""


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, fit: bool) -> list[str]:
    """Print a table; returns the titles of the columns that `fit` left out for a narrow terminal."""
    terminal = terminal_columns(sys.stdout) if fit else None
    shown = fitting_columns(titles, rows, terminal) if terminal else list(range(len(titles)))
    kept = [[row[number] for number in shown] for row in (titles, *rows)]
    if sys.stdout.isatty():
        _print_on_terminal(kept[0], kept[1:])
    else:
        lines = [[" ".join(cell.split()) for cell in row] for row in kept]
        widths = _widths(lines)
        for line in lines:
            print_line(GAP.join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
    return [title for number, title in enumerate(titles) if number not in shown]


def fitting_columns(titles: Sequence[str], rows: Sequence[Sequence[str]], terminal: int) -> list[int]:
    """Return the indexes of the columns that fit a terminal; the first one always stays.

    Empty columns are left out first, then the last columns. Only a column with a cell of several words may fold.
    """
    shown = list(range(len(titles)))
    empty = [number for number in shown[1:] if all(row[number] in {"", EMPTY} for row in rows)]
    leave_out = [*reversed(empty), *(number for number in reversed(shown[1:]) if number not in empty)]
    while leave_out and _min_width([[row[number] for number in shown] for row in (titles, *rows)]) > terminal:
        shown.remove(leave_out.pop(0))
    return shown


def _min_width(lines: Sequence[Sequence[str]]) -> int:
    return _sum(_min_widths(lines))


def _min_widths(lines: Sequence[Sequence[str]], *, whole_words: bool = False) -> list[int]:
    """Return the smallest widths: a column that can fold needs a minimum, its title and perhaps its words."""
    widths = _widths(lines)
    for number, title in enumerate(lines[0]):
        cells = [line[number] for line in lines[1:]]
        if any(" " in cell for cell in cells):  # a cell with several words may continue on more lines
            longest = max((len(word) for cell in cells for word in cell.split()), default=0) if whole_words else 0
            widths[number] = min(widths[number], max(MIN_FOLDED_WIDTH, len(title), longest))
    return widths


def folded_widths(lines: Sequence[Sequence[str]], terminal: int) -> list[int]:
    """Return the widths for a terminal; a word is broken only if the longest words do not fit."""
    natural = _widths(lines)
    smallest = _min_widths(lines, whole_words=True)
    if _sum(smallest) > terminal:
        smallest = _min_widths(lines)
    missing = [most - least for most, least in zip(natural, smallest, strict=True)]
    free = max(0, min(terminal - _sum(smallest), sum(missing)))
    shares = [free * one // (sum(missing) or 1) for one in missing]
    shares[-1] += min(free - sum(shares), missing[-1] - shares[-1])
    return [least + share for least, share in zip(smallest, shares, strict=True)]


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(max(map(len, cell.split("\n"))) for cell in column) for column in zip(*lines, strict=True)]


def _print_on_terminal(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with styles; only columns with several words fold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, lines = Console(), [titles, *rows]
    console.width = max(console.width, _min_width(lines))
    styles = {} if os.environ.get("NO_COLOR") else STYLES
    table = Table(box=None, pad_edge=False, header_style="bold" if styles else "")
    for title, width in zip(titles, folded_widths(lines, console.width), strict=True):
        table.add_column(title, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    console.print(table)
