"""Mutants of an event: one thing changed at one place, in every way that a careless producer might."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]

# An integral float is left out on purpose: JSON Schema takes 1.0 for an integer, the models do not, and no entry holds
# a float (tests/domain: bodies are JSON without floats).
OTHERS: tuple[Any, ...] = (None, True, -1, 0, 1.5, "", "word of tomorrow", [], {}, ["x"], {"x": "y"}, [None])
TIMES = (
    "2026-02-03T04:05:06Z",
    "2026-02-03T04:05:06.0001Z",
    "2026-02-03T04:05:06.000+00:00",
    "2026-02-30T04:05:06.000Z",
    "2026-02-03T24:00:00.000Z",
    "2026-02-03T04:05:60.000Z",
    "2026-02-03 04:05:06.000Z",
    "0000-02-03T04:05:06.000Z",
    "2026-02-03T04:05:06.000Z\n",
    "1999-12-31T23:59:59.999Z",
)


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON document, the root left out; of a long list or map the first few."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())[:30]
    elif isinstance(value, list):
        inner = list(enumerate(value))[:2]
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


def mutants(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mutant with a name that says what was done."""
    for place in places(event):
        name = "/".join(map(str, place))
        yield f"{name} removed", _without(event, place)
        for value in (*OTHERS, *_near(_at(event, place))):
            yield f"{name} = {value!r}", _with(event, place, value)
    for place in ((), ("metadata",), ("data",)):
        yield f"{'/'.join(map(str, place))} + field", _with(event, (*place, "of_tomorrow"), 1)


def _near(value: object) -> Iterator[object]:
    """Values much like the one that is there, most of them wrong by a hair."""
    if isinstance(value, str):
        yield from (value.upper(), value + "\n", " " + value, value[:-1], value * 2)
        if value[4:5] == "-" and value.endswith("Z"):
            yield from TIMES
    elif isinstance(value, int):
        yield from (-value - 1, value + 1, str(value))
    elif isinstance(value, list):
        yield value * 60


def _at(event: Any, place: Place) -> Any:
    for key in place:
        event = event[key]
    return event


def _with(event: dict[str, Any], place: Place, value: object) -> dict[str, Any]:
    changed = copy.deepcopy(event)
    _at(changed, place[:-1])[place[-1]] = copy.deepcopy(value)
    return changed


def _without(event: dict[str, Any], place: Place) -> dict[str, Any]:
    changed = copy.deepcopy(event)
    del _at(changed, place[:-1])[place[-1]]
    return changed
