"""A full screen that is drawn again while a command runs, until `q` or Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from faultbridge.cli.render.output import Columns, Document, cell_text
from faultbridge.cli.render.tables import fitting_columns, styled_table
from faultbridge.domain.safe_text import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

QUIT = frozenset({"q", "Q", "\x03", "\x04"})
MIN_ROWS = 3
_LINES_OF_SECTION = 3
"""Lines of a section besides its rows: a blank one, its title, and the titles of its columns."""

Section = tuple[str, Sequence[Document], Columns]
Screen = tuple[str, Sequence[Section]]
"""A heading, and the sections with a title, documents and columns each."""


def draw(screen: Screen, width: int, height: int) -> RenderableType:
    """Return the screen for a terminal of this width and height.

    If a section is too long, its last line states how many rows were left out.
    """
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
    """Draw each new screen that `read` returns, until `wait_for_quit` returns True or Ctrl-C is pressed.

    `read` returns None if the screen is unchanged. `wait_for_quit` waits before the next call of `read`.
    """
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
    """Yield a function that waits up to `seconds` for a key, and returns whether the key is in `QUIT`.

    Without a terminal, the function always waits `seconds` and returns False, so that only Ctrl-C ends the screen. At
    the end, the terminal gets its previous settings again.
    """
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
