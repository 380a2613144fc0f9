"""Compiles regular expressions from data and rejects those whose matching time has no bound."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from faultbridge.errors import Misconfigured

MAX_PATTERN = 512
# A repetition of a repetition makes the matching time exponential.
_NESTED = re.compile(r"[*+}?]\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)[*+]|\{\d*,\}")
_WIDE = re.compile(r"\{(?:\d*,)?(\d{2,9})\}")
# Wide repetitions multiply: three of 64 match within milliseconds, four do not.
_MAX_PLACES = 300_000


@lru_cache(maxsize=512)
def bounded_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; raises Misconfigured for an invalid one, or one without a time bound."""
    if len(pattern) > MAX_PATTERN or _NESTED.search(pattern) or _UNBOUNDED.search(pattern):
        raise Misconfigured(f"pattern without a time bound: {pattern[:64]!r}; use {{0,n}} and no nested repetition")
    if prod(int(limit) for limit in _WIDE.findall(pattern) if int(limit) > _NARROW_LIMIT) > _MAX_PLACES:
        raise Misconfigured(f"too many wide repetitions in the pattern {pattern[:64]!r}; use smaller limits")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Misconfigured(f"invalid pattern: {pattern[:64]!r}: {error}") from error


_NARROW_LIMIT = 15
