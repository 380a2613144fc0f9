"""Print tables: complete in pipes and files, and fitted to the width of a terminal."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from faultbridge.cli.render.output import Columns, Shown, cell_text, print_line
from faultbridge.model.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


GAP = 2
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
    shown = fitting_columns(titles, rows, shutil.get_terminal_size().columns) if fit else list(range(len(titles)))
    kept = [[row[number] for number in shown] for row in (titles, *rows)]
    if sys.stdout.isatty():
        _print_on_terminal(kept[0], kept[1:])
    else:
        lines = [[" ".join(cell.split()) for cell in row] for row in kept]
        widths = _widths(lines)
        for line in lines:
            print_line((" " * GAP).join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
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
    return _sum(_min_widths(lines, MIN_FOLDED_WIDTH))


def _min_widths(lines: Sequence[Sequence[str]], folded: int, *, whole_words: bool = False) -> list[int]:
    """Return the smallest widths: a column that can fold needs `folded`, its title and perhaps its words."""
    widths = _widths(lines)
    for number, title in enumerate(lines[0]):
        cells = [line[number] for line in lines[1:]]
        if _folds(cells):
            longest = max((len(word) for cell in cells for word in cell.split()), default=0) if whole_words else 0
            widths[number] = min(widths[number], max(folded, len(title), longest))
    return widths


def folded_widths(lines: Sequence[Sequence[str]], terminal: int) -> list[int]:
    """Return the widths for a terminal; a word is broken only if the longest words do not fit."""
    natural = _widths(lines)
    smallest = _min_widths(lines, MIN_FOLDED_WIDTH, whole_words=True)
    if _sum(smallest) > terminal:
        smallest = _min_widths(lines, MIN_FOLDED_WIDTH)
    missing = [most - least for most, least in zip(natural, smallest, strict=True)]
    free = max(0, min(terminal - _sum(smallest), sum(missing)))
    shares = [free * one // (sum(missing) or 1) for one in missing]
    shares[-1] += min(free - sum(shares), missing[-1] - shares[-1])
    return [least + share for least, share in zip(smallest, shares, strict=True)]


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _folds(cells: Iterable[str]) -> bool:
    """Return whether a column may continue on more lines: a cell has several words (an id is one word)."""
    return any(" " in cell for cell in cells)


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(max(map(len, cell.split("\n"))) for cell in column) for column in zip(*lines, strict=True)]


def _print_on_terminal(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    console = Console()
    console.width = max(console.width, _min_width([titles, *rows]))
    console.print(styled_table(titles, rows, console.width))


def styled_table(titles: Sequence[str], rows: Sequence[Sequence[str]], terminal: int) -> Table:
    """Return a table with styles for a terminal of this width; only columns with several words fold."""
    from rich.table import Table
    from rich.text import Text

    styles = {} if os.environ.get("NO_COLOR") else STYLES
    table = Table(box=None, pad_edge=False, header_style="bold" if styles else "")
    for title, width in zip(titles, folded_widths([titles, *rows], terminal), strict=True):
        table.add_column(title, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return table


QUIT = frozenset({"q", "Q", "\x03", "\x04"})
MIN_ROWS = 3
_LINES_OF_SECTION = 3
"""Lines of a section besides its rows: a blank one, its title, and the titles of its columns."""

Section = tuple[str, Sequence[Shown], Columns]
Screen = tuple[str, Sequence[Section]]
"""A heading, and the sections with a title, documents and columns each."""


def draw(screen: Screen, width: int, height: int) -> RenderableType:
    """Return the screen for a terminal of this size; the last line of a section counts the rows left out."""
    from rich.console import Group
    from rich.text import Text

    heading, sections = screen
    filled = [section for section in sections if section[1]]
    parts: list[RenderableType] = [Text(visible(heading), style="bold", no_wrap=True, overflow="ellipsis")]
    for title, documents, columns in filled:
        room = max(MIN_ROWS, (height - 2) // len(filled) - _LINES_OF_SECTION)
        shown = documents if len(documents) <= room else documents[: room - 1]
        rows = [[" ".join(cell_text(value(one)).split()) for value in columns.values()] for one in shown]
        numbers = fitting_columns(list(columns), rows, width)
        parts += [Text(""), Text(f"{title} ({len(documents)})", style="bold")]
        kept = [[row[number] for number in numbers] for row in ([*columns], *rows)]
        parts.append(styled_table(kept[0], kept[1:], width))
        if len(shown) < len(documents):
            parts.append(Text(f"... and {len(documents) - len(shown)} more"))
    if not filled:
        parts += [Text(""), Text("every node is healthy; nothing is open")]
    return Group(*parts)


def run_screen(read: Callable[[], Screen | None], wait_for_quit: Callable[[], bool], console: Console) -> None:
    """Draw each new screen that `read` returns (None: unchanged), until a key or Ctrl-C ends it."""
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                screen = read()
                if screen is not None:
                    live.update(draw(screen, console.width, console.height), refresh=True)
                if wait_for_quit():
                    return
        except KeyboardInterrupt:
            return


@contextmanager
def quit_key(seconds: float, stream: int | None = None) -> Iterator[Callable[[], bool]]:
    """Yield a function that waits for a key of `QUIT`; without a terminal, only Ctrl-C ends the screen."""
    import termios
    import tty

    keyboard = sys.stdin.fileno() if stream is None else stream
    if not os.isatty(keyboard):
        yield lambda: _paused(seconds)
        return
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield lambda: _pressed(keyboard, seconds)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _paused(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed(keyboard: int, seconds: float) -> bool:
    ready, _, _ = select.select([keyboard], [], [], seconds)
    return bool(ready) and any(key in QUIT for key in os.read(keyboard, 64).decode(errors="replace"))
