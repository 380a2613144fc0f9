"""Prints text for people. Every other module of the command line prints through this one."""

from __future__ import annotations

import sys

from faultbridge.domain.safe_text import visible


def print_line(text: str = "", *, to_stderr: bool = False, end: str = "\n", flush: bool = False) -> None:
    """Print a text. Terminal escapes and direction marks in it are shown and have no effect."""
    print(visible(text), file=sys.stderr if to_stderr else sys.stdout, end=end, flush=flush)
