"""Closest names: which existing names a mistyped or truncated name probably means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_CLOSEST = 3
_MIN_SIMILARITY = 0.5


def closest_names(name: str, existing: Iterable[str], limit: int = MAX_CLOSEST) -> tuple[str, ...]:
    """Return the existing names that start with `name`, else the most similar ones, best first. Case is ignored."""
    by_lower_case = {one.lower(): one for one in sorted(existing, reverse=True)}
    given = name.lower()
    found = sorted(one for one in by_lower_case if given and one.startswith(given))
    found = found or get_close_matches(given, by_lower_case, limit, _MIN_SIMILARITY)
    return tuple(by_lower_case[one] for one in found[:limit])


def did_you_mean(name: str, existing: Iterable[str], limit: int = MAX_CLOSEST) -> str:
    """Return the end of an error text that proposes the closest names; empty where none is close."""
    *most, last = closest_names(name, existing, limit) or ("",)
    return f"; did you mean {' or '.join(filter(None, (', '.join(most), last)))}?" if last else ""
