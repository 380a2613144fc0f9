"""The fields and words of a rule's pattern, held against the schemas of the events that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from faultbridge.events.registry import HOMES, kebab
from faultbridge.events.schemas import open_schema


class _Wrong(NamedTuple):
    """What is wrong with a place of a pattern: that it is no field, or a word in it."""

    place: str
    word: str | None
    says: str

    def covers(self, other: _Wrong) -> bool:
        """Tell whether this is as good as the other, or says that there is no such place at all."""
        if self.word is None:
            return f"{other.place}.".startswith(f"{self.place}.")
        return (self.place, self.word) == (other.place, other.word)


def misspelt(pattern: Mapping[str, Any]) -> list[str]:
    """Find fields of our events in a pattern that no event has, and words that are in no list."""
    if any(str(source).startswith("aws.") for source in pattern.get("source", [])):
        return []
    types = [one for one in pattern.get("detail-type", []) if isinstance(one, str)] or list(HOMES)
    unknown = [f"{one!r} is no event of this version" for one in types if one not in HOMES]
    schemas = [open_schema(kebab(one)) for one in types if one in HOMES]
    readings = [list(_wrong(pattern.get("detail", {}), schema, schema, "detail")) for schema in schemas]
    # Right for one of the types is right: the rule may be about several.
    found = {wrong: None for reading in readings for wrong in reading if _wrong_for_all(wrong, readings)}
    return unknown + list(dict.fromkeys(wrong.says for wrong in found))


def _wrong_for_all(wrong: _Wrong, readings: list[list[_Wrong]]) -> bool:
    """Tell whether every type has the same to say of a place; one that lacks the place says nothing of its words."""
    return all(any(other.covers(wrong) for other in reading) for reading in readings)


def _wrong(pattern: object, node: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Iterator[_Wrong]:
    shapes = list(_shapes(node, root))
    if isinstance(pattern, list):
        yield from _wrong_words(pattern, shapes, place)
        return
    if not isinstance(pattern, Mapping):
        return
    for name, inner in pattern.items():
        if name == "$or":
            for branch in inner:
                yield from _wrong(branch, node, root, place)
            continue
        found = [shape["properties"][name] for shape in shapes if name in shape.get("properties", {})]
        found += [shape["additionalProperties"] for shape in shapes if "additionalProperties" in shape]
        if found:
            yield from _wrong(inner, {"anyOf": found}, root, f"{place}.{name}")
        elif shapes != [{}]:
            yield _Wrong(f"{place}.{name}", None, f"{place}.{name} is no field of the event")


def _wrong_words(wanted: list[object], shapes: list[Mapping[str, Any]], place: str) -> Iterator[_Wrong]:
    known = [word for shape in shapes for word in shape.get("enum", [])]
    for word in wanted:
        if known and isinstance(word, str) and word not in known:
            yield _Wrong(place, word, f"{place}: {word!r} is none of {', '.join(known)}")


def _shapes(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what a place of an event may look like, references and alternatives resolved."""
    if "$ref" in node:
        yield from _shapes(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _shapes(one, root)
    else:
        yield node
