"""Compiles regular expressions from data, and rejects those whose matching time has no bound."""

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
    """Compile a pattern, or raise `Misconfigured` if it is invalid or could take too long to match.

    A pattern is refused if it is longer than 512 characters, or if it has an unlimited repetition, nested repetitions
    or too many wide repetitions.
    """
    if len(pattern) > MAX_PATTERN or _NESTED.search(pattern) or _UNBOUNDED.search(pattern):
        raise Misconfigured(f"pattern without a time bound: {pattern[:64]!r}; use {{0,n}} and no nested repetition")
    if prod(int(limit) for limit in _WIDE.findall(pattern) if int(limit) > _NARROW_LIMIT) > _MAX_PLACES:
        raise Misconfigured(f"too many wide repetitions in the pattern {pattern[:64]!r}; use smaller limits")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Misconfigured(f"invalid pattern: {pattern[:64]!r}: {error}") from error


_NARROW_LIMIT = 15

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_CHOICES = frozenset({"BRANCH", "GROUPREF_EXISTS"})


def check_repetitions(pattern: str) -> None:
    """Raise `Misconfigured` if a pattern repeats a group that contains alternatives or a repetition.

    A repetition within the group counts only if its length is variable. A text may match such a pattern in many ways,
    and a search may try all of them. The time of the search can then grow exponentially, even if each repetition has a
    small limit.
    """
    if _is_ambiguous(re._parser.parse(pattern)):  # type: ignore[attr-defined]  # noqa: SLF001 - no public parser
        text = "repeats a group that contains alternatives or a repetition"
        raise Misconfigured(f"the pattern {pattern[:64]!r} {text}; its matching time has no bound")


def _is_ambiguous(node: object, *, repeated: bool = False) -> bool:
    """Return True if a pattern repeats a part with alternatives or with a repetition of variable length.

    `node` is the parsed pattern or a part of it. `repeated` states whether a repetition contains this part.
    """
    name, *arguments = node if isinstance(node, tuple) and node else (None,)
    if str(name) in _REPEATS:
        least, most, body = arguments[0]
        return (repeated and least != most) or _is_ambiguous(body, repeated=repeated or most > 1)
    if str(name) in _CHOICES and repeated:
        return True
    parts = node if isinstance(node, (tuple, list)) else getattr(node, "data", ())
    return any(_is_ambiguous(one, repeated=repeated) for one in parts)
