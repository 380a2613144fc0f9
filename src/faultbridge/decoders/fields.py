"""Fields of JSON that others wrote: each is there in the expected shape, or it is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTHING: Mapping[str, Any] = {}
MAX_TEXT = 4096


def text(value: object, most: int = MAX_TEXT) -> str | None:
    """Return a string that says something, trimmed and bounded, or None."""
    if not isinstance(value, str):
        return None
    return value.strip()[:most] or None


def members(value: object) -> Mapping[str, Any]:
    """Return an object's members, or none."""
    return value if isinstance(value, dict) else NOTHING


def elements(value: object) -> tuple[Any, ...]:
    """Return a list's elements, or none."""
    return tuple(value) if isinstance(value, list) else ()


def objects_in(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the objects among a list's elements."""
    return tuple(one for one in elements(value) if isinstance(one, dict))


def number(value: object) -> int | None:
    """Return a whole number that is not negative, also one written as text, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 2**64 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:  # noqa: PLR2004 - 64 bits
        return number(int(value))
    return None


def told(**given: str | None) -> dict[str, str]:
    """Return the attributes that have a value, each bounded."""
    return {name: value[:512] for name, value in given.items() if value}
