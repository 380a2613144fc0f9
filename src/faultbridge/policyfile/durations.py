"""Durations as people write them: `90s`, `30m`, `8h`, `16d`, or parts of these such as `1h30m`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TEXT = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")


def seconds(value: object) -> int:
    """Read a duration in whole seconds from text or a number of seconds; ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _TEXT.fullmatch(value.strip()) if isinstance(value, str) and value.strip() else None
    if found is None:
        raise ValueError("a duration such as 90s, 30m, 8h or 16d is expected")
    return sum(int(part) * unit for part, unit in zip(found.groups(), _UNITS.values(), strict=True) if part)


def text(whole: int) -> str:
    """Render a duration in whole seconds, such as `1h30m`."""
    parts: list[str] = []
    for name, unit in _UNITS.items():
        count, whole = divmod(whole, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts) or "0s"


def converted(value: object, names: frozenset[str], convert: Callable[[int], object]) -> Any:  # noqa: ANN401 - JSON
    """Copy JSON with each number under one of the names converted, however deep it stands."""
    if isinstance(value, dict):
        return {
            name: convert(one) if name in names and isinstance(one, int) else converted(one, names, convert)
            for name, one in value.items()
        }
    return [converted(one, names, convert) for one in value] if isinstance(value, list) else value
