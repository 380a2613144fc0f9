"""Wraps a text for people to the width of a terminal. A command in backquotes stays on one line, to be copied."""

from __future__ import annotations

import re
import shutil
from typing import TextIO

_COMMAND = re.compile(r"`[^`\n]*`")
_JOINED = "\N{NO-BREAK SPACE}"


def terminal_columns(stream: TextIO) -> int | None:
    """Return the width of the terminal in columns, or None where the stream is no terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(text: str, terminal: int | None, indent: int) -> str:
    """Return a text in lines of at most this width; lines after the first are indented. No word is broken."""
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
