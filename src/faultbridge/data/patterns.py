"""Patterns that come as data: none may take time without a bound, whoever wrote it."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from faultbridge.errors import Misconfigured

MAX_PATTERN = 512
# Something that repeats, repeated: the shape that makes matching take time without a bound.
_NESTED = re.compile(r"[*+}?]\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)[*+]|\{\d*,\}")
_WIDE = re.compile(r"\{(?:\d*,)?(\d{2,9})\}")
# Wide repetitions try each other's places: 64 times 64 times 64 ends within milliseconds, one more does not.
_MAX_PLACES = 300_000


@lru_cache(maxsize=512)
def bounded_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; one that could take time without a bound, or is none, is `Misconfigured`."""
    if len(pattern) > MAX_PATTERN or _NESTED.search(pattern) or _UNBOUNDED.search(pattern):
        raise Misconfigured(f"the pattern {pattern[:64]!r} has no bound: write {{0,n}} and repeat no repetition")
    if prod(int(most) for most in _WIDE.findall(pattern) if int(most) > _NARROW) > _MAX_PLACES:
        raise Misconfigured(f"the pattern {pattern[:64]!r} has too many wide repetitions: make them narrower")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Misconfigured(f"the pattern {pattern[:64]!r} is none: {error}") from error


_NARROW = 15
