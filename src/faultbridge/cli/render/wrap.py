"""Wrap text for people to the width of a terminal.

A command in backquotes stays on one line, so that it can be copied.
"""

from __future__ import annotations

import re
import shutil
from typing import TextIO

_COMMAND = re.compile(r"`[^`\n]*`")
_JOINED = "\N{NO-BREAK SPACE}"


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal in columns, or None if the stream is not a terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, terminal: int | None, indent: int) -> str:
    """Return a text wrapped to the width of the terminal; lines after the first are indented.

    No word is broken. Without a terminal, the text stays unchanged.
    """
    if terminal is None or len(text) <= terminal:
        return text
    import textwrap

    joined = _COMMAND.sub(lambda found: found[0].replace(" ", _JOINED), text)
    lines = textwrap.wrap(
        joined,
        terminal,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )
    return "\n".join(lines).replace(_JOINED, " ")
