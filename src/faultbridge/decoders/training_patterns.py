"""Patterns over lines of a training log, with a bound on the time that any line can cost.

A pattern is tried only where its fixed text stands, from there on, over a window of bounded length; none may repeat
what itself repeats. A longer line is searched in its first 8,192 characters and around nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from faultbridge.data.patterns import bounded_pattern
from faultbridge.errors import Misconfigured

MAX_LINE = 8192
WINDOW = 1536
MAX_PLACES = 8


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of the data, ready to be tried."""

    contains: str
    regex: re.Pattern[str]
    row: Mapping[str, Any]

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match at a place where the fixed text stands."""
        place = -1
        for _ in range(MAX_PLACES):
            place = line.find(self.contains, place + 1)
            if place < 0:
                return None
            found = self.regex.match(line, place, place + WINDOW)
            if found and self._fits(line):
                return found
        return None

    def _fits(self, line: str) -> bool:
        row = self.row
        return not any(one in line for one in row.get("lacks", ())) and all(one in line for one in row.get("needs", ()))


def patterns_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Pattern, ...]:
    """Make patterns of rows; one that could take time without a bound, or is none, is `Misconfigured`."""
    return tuple(_pattern(row) for row in rows)


def _pattern(row: Mapping[str, Any]) -> Pattern:
    return Pattern(str(row["contains"]), _compiled(str(row["contains"]), str(row["pattern"])), row)


@lru_cache(maxsize=256)
def _compiled(contains: str, pattern: str) -> re.Pattern[str]:
    if not contains:
        raise Misconfigured(f"the pattern {pattern[:64]!r} names no fixed text to look for")
    return bounded_pattern(pattern)


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a log; a progress bar ends with a carriage return, and other text may be glued behind it."""
    for line in re.split(r"[\r\n]", text):
        if line:
            yield line[:MAX_LINE]
