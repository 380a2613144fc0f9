"""What may change between two versions of a schema within one major version, as a table, and how to find changes.

Two promises meet here: a reader of the last version reads today's events, and today's reader reads every event ever
recorded. So a change must harm neither direction, which leaves few: see `ALLOWED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class ChangeKind(StrEnum):
    """What differs between two schemas at one place."""

    OPTIONAL_FIELD_ADDED = "optional field added"
    WORD_ADDED = "word added to an open list"
    TEXT_CHANGED = "title, description or example changed"
    UNIT_STATED = "unit stated where none was"
    VERSION_RAISED = "minor version raised"
    REQUIRED_FIELD_ADDED = "required field added"
    FIELD_REMOVED = "field removed"
    FIELD_NOW_REQUIRED = "field that was optional is required"
    FIELD_NOW_OPTIONAL = "field that was always there is optional"
    WORD_REMOVED = "word removed from a list"
    TYPE_CHANGED = "type changed"
    PATTERN_CHANGED = "pattern changed"
    FORMAT_CHANGED = "format changed"
    UNIT_CHANGED = "unit changed"
    RULE_CHANGED = "rule changed"


ALLOWED = frozenset(
    {
        ChangeKind.OPTIONAL_FIELD_ADDED,
        ChangeKind.WORD_ADDED,
        ChangeKind.TEXT_CHANGED,
        ChangeKind.UNIT_STATED,
        ChangeKind.VERSION_RAISED,
    }
)

# Every keyword that is not here and not walked into counts as a rule: what nobody thought of is not allowed.
_KEYWORDS = {
    "title": ChangeKind.TEXT_CHANGED,
    "description": ChangeKind.TEXT_CHANGED,
    "examples": ChangeKind.TEXT_CHANGED,
    "type": ChangeKind.TYPE_CHANGED,
    "pattern": ChangeKind.PATTERN_CHANGED,
    "format": ChangeKind.FORMAT_CHANGED,
    "x-unit": ChangeKind.UNIT_CHANGED,
}
_WALKED = {
    "$defs",
    "$ref",
    "properties",
    "required",
    "enum",
    "items",
    "additionalProperties",
    "anyOf",
    "x-schema-version",
}


class Change(NamedTuple):
    """One difference; `place` is a JSON pointer into the event that the schema describes."""

    kind: ChangeKind
    place: str
    what: str

    @property
    def allowed(self) -> bool:
        """Tell whether the difference harms no reader."""
        return self.kind in ALLOWED

    def __str__(self) -> str:
        """Render as one line."""
        return f"{self.place or '/'}: {self.kind.value}: {self.what}"


Schema = Mapping[str, Any]


def changes(old: Schema, new: Schema) -> list[Change]:
    """List every difference between two versions of a schema."""
    return list(_Walk(old, new).node(old, new, ""))


def breaking(old: Schema, new: Schema) -> list[Change]:
    """List the differences that would harm a reader."""
    return [change for change in changes(old, new) if not change.allowed]


class _Walk:
    """Walks two schemas side by side, through their references."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._roots = (old, new)

    def node(self, old: Schema, new: Schema, place: str) -> Iterator[Change]:
        old, new = _follow(self._roots[0], old), _follow(self._roots[1], new)
        yield from _keywords(old, new, place)
        yield from _words(old, new, place)
        yield from _version(old, new, place)
        yield from self._fields(old, new, place)
        for keyword in ("items", "additionalProperties"):
            yield from self._inner(old.get(keyword), new.get(keyword), f"{place}/*")
        yield from self._branches(old.get("anyOf", []), new.get("anyOf", []), place)

    def _fields(self, old: Schema, new: Schema, place: str) -> Iterator[Change]:
        before, after = old.get("properties", {}), new.get("properties", {})
        was, now = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(set(before) - set(after)):
            yield Change(ChangeKind.FIELD_REMOVED, f"{place}/{name}", name)
        for name in sorted(set(after) - set(before)):
            kind = ChangeKind.REQUIRED_FIELD_ADDED if name in now else ChangeKind.OPTIONAL_FIELD_ADDED
            yield Change(kind, f"{place}/{name}", name)
        for name in sorted(set(before) & set(after)):
            if (name in was) != (name in now):
                kind = ChangeKind.FIELD_NOW_REQUIRED if name in now else ChangeKind.FIELD_NOW_OPTIONAL
                yield Change(kind, f"{place}/{name}", name)
            yield from self.node(before[name], after[name], f"{place}/{name}")

    def _inner(self, old: object, new: object, place: str) -> Iterator[Change]:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from self.node(old, new, place)
        elif old != new:
            yield Change(ChangeKind.TYPE_CHANGED, place, f"{old} -> {new}")

    def _branches(self, old: list[Schema], new: list[Schema], place: str) -> Iterator[Change]:
        if len(old) != len(new):
            yield Change(ChangeKind.TYPE_CHANGED, place, f"{len(old)} alternatives -> {len(new)}")
            return
        for before, after in zip(old, new, strict=True):
            yield from self.node(before, after, place)


def _follow(root: Schema, node: Schema) -> Schema:
    """Put what a reference points to in its place; keywords beside the reference win."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target: Schema = root["$defs"][reference.rpartition("/")[2]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _keywords(old: Schema, new: Schema, place: str) -> Iterator[Change]:
    for keyword in sorted((set(old) | set(new)) - _WALKED):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        kind = _KEYWORDS.get(keyword, ChangeKind.RULE_CHANGED)
        if keyword == "x-unit" and before is None:
            kind = ChangeKind.UNIT_STATED
        yield Change(kind, place, f"{keyword}: {before} -> {after}")


def _words(old: Schema, new: Schema, place: str) -> Iterator[Change]:
    before, after = old.get("enum"), new.get("enum")
    if before is None and after is None:
        return
    if before is None or after is None:
        yield Change(ChangeKind.TYPE_CHANGED, place, f"enum: {before} -> {after}")
        return
    for word in sorted(set(before) - set(after)):
        yield Change(ChangeKind.WORD_REMOVED, place, str(word))
    for word in sorted(set(after) - set(before)):
        yield Change(ChangeKind.WORD_ADDED, place, str(word))


def _version(old: Schema, new: Schema, place: str) -> Iterator[Change]:
    before, after = old.get("x-schema-version"), new.get("x-schema-version")
    if before == after:
        return
    raised = before and after and _parts(before)[0] == _parts(after)[0] and _parts(before) < _parts(after)
    yield Change(
        ChangeKind.VERSION_RAISED if raised else ChangeKind.RULE_CHANGED, place, f"version {before} -> {after}"
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
