"""Mutants of an event: one thing changed at one place, in every way that a careless producer might."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

Place = tuple[str | int, ...]
REMOVED = object()

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


class Mutation(NamedTuple):
    """One thing to be changed: a value put in a place, or taken out of it."""

    place: Place
    value: object = REMOVED

    def __str__(self) -> str:
        change = "removed" if self.value is REMOVED else f"= {self.value!r}"
        return f"{'/'.join(map(str, self.place))} {change}"

    def of(self, event: dict[str, Any]) -> dict[str, Any]:
        """The mutant; the event stays as it is."""
        changed = copy.deepcopy(event)
        inside, key = _at(changed, self.place[:-1]), self.place[-1]
        if self.value is REMOVED:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(self.value)
        return changed


def mutations(event: dict[str, Any]) -> Iterator[Mutation]:
    """Everything that can be changed in an event, one at a time."""
    for place in places(event):
        yield Mutation(place)
        yield from (Mutation(place, value) for value in (*OTHERS, *_near(_at(event, place))))
    yield from (Mutation((*place, "of_tomorrow"), 1) for place in ((), ("metadata",), ("data",)))


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
