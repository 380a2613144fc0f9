"""Mutants of an event: each changes one value, as a faulty producer might."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

Place = tuple[str | int, ...]
REMOVED = object()

# 1.0 is left out on purpose: JSON Schema accepts it as an integer, the models do not, and no entry contains a float
# (tests/domain: bodies are JSON without floats).
OTHERS: tuple[Any, ...] = (None, True, -1, 0, 1.5, "", "unknown value", [], {}, ["x"], {"x": "y"}, [None])
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
    """Yield every place in a JSON document except the root; of long lists and maps only the first few."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())[:30]
    elif isinstance(value, list):
        inner = list(enumerate(value))[:2]
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


class Mutation(NamedTuple):
    """One change: a value set at a place, or removed from it."""

    place: Place
    value: object = REMOVED

    def __str__(self) -> str:
        change = "removed" if self.value is REMOVED else f"= {self.value!r}"
        return f"{'/'.join(map(str, self.place))} {change}"

    def of(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the mutant of an event. The event is not changed."""
        changed = copy.deepcopy(event)
        inside, key = _at(changed, self.place[:-1]), self.place[-1]
        if self.value is REMOVED:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(self.value)
        return changed


def mutations(event: dict[str, Any]) -> Iterator[Mutation]:
    """Yield every mutation of an event."""
    for place in places(event):
        yield Mutation(place)
        yield from (Mutation(place, value) for value in (*OTHERS, *_near(_at(event, place))))
    yield from (Mutation((*place, "unknown_field"), 1) for place in ((), ("metadata",), ("data",)))


def _near(value: object) -> Iterator[object]:
    """Yield values similar to the given one, most of them invalid."""
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
