"""Packaged mappings: which word of a foreign source means which fault; a customer's own go before ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from faultbridge.data.patterns import bounded_pattern
from faultbridge.errors import Misconfigured

_FOLDER = Path(__file__).parent / "mappings"
LARGEST = 256 * 1024
NAMES = ("alerts", "conditions", "gpud", "health", "nvsentinel", "slurm", "training")


@cache
def packaged(name: str) -> Mapping[str, Any]:
    """Return a mapping as it comes with the package."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_bytes())
    return found


def mapping(name: str, own: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a mapping with a customer's own put over it: their lists come first, their members replace ours."""
    ours = packaged(name)
    return merged(ours, own[name]) if name in own else ours


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Put one mapping over another, member by member."""
    result = dict(ours)
    for name, value in theirs.items():
        known = ours.get(name)
        if isinstance(known, list) and isinstance(value, list):
            result[name] = [*value, *known]
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            result[name] = merged(known, value)
        else:
            result[name] = value
    return result


def read_own(text: str) -> dict[str, Mapping[str, Any]]:
    """Read a customer's mappings, one member for each mapping that it extends; anything else is `Misconfigured`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Misconfigured(f"the mappings are no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Misconfigured("the mappings are no JSON object")
    if len(text) > LARGEST:
        raise Misconfigured(f"{len(text)} characters of mappings, at most {LARGEST} are kept")
    _refuse_bad(found)
    return found


def _refuse_bad(words: Mapping[str, Mapping[str, Any]]) -> None:
    for name, extension in words.items():
        if name not in NAMES:
            raise Misconfigured(f"{name!r} is none of the mappings {', '.join(NAMES)}")
        _refuse_other_shapes(name, packaged(name), extension)
        for pattern in _patterns(extension):
            bounded_pattern(pattern)


def _patterns(value: object) -> Iterator[str]:
    """Yield what is matched as a pattern, wherever it stands."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name in _PATTERNS and isinstance(one, str):
                yield one
            elif name == "labels" and isinstance(one, Mapping):
                yield from (want for want in one.values() if isinstance(want, str))
            else:
                yield from _patterns(one)
    elif isinstance(value, list):
        for one in value:
            yield from _patterns(one)


_PATTERNS = frozenset({"pattern", "alert"})


def _refuse_other_shapes(place: str, ours: Any, theirs: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for member in ours.keys() & theirs.keys():
            _refuse_other_shapes(f"{place}.{member}", ours[member], theirs[member])
    elif ours is not None and theirs is not None and type(ours) is not type(theirs):
        raise Misconfigured(f"{place} is {type(theirs).__name__}, not {type(ours).__name__}")
