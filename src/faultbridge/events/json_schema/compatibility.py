"""Finds the changes between two versions of a schema, and determines which of them are allowed.

A consumer of the last released version must be able to read current events. A current consumer must be able to read
every event ever recorded. A change must therefore be safe in both directions. `ALLOWED` lists the safe kinds of change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class ChangeKind(StrEnum):
    """The kind of a change between two schemas."""

    OPTIONAL_FIELD_ADDED = "optional field added"
    VALUE_ADDED = "value added to an open enumeration"
    TEXT_CHANGED = "title, description or example changed"
    UNIT_ADDED = "unit added where there was none"
    VERSION_RAISED = "minor version raised"
    REQUIRED_FIELD_ADDED = "required field added"
    FIELD_REMOVED = "field removed"
    FIELD_NOW_REQUIRED = "optional field is now required"
    FIELD_NOW_OPTIONAL = "required field is now optional"
    VALUE_REMOVED = "value removed from an enumeration"
    TYPE_CHANGED = "type changed"
    PATTERN_CHANGED = "pattern changed"
    FORMAT_CHANGED = "format changed"
    UNIT_CHANGED = "unit changed"
    RULE_CHANGED = "rule changed"


ALLOWED = frozenset(
    {
        ChangeKind.OPTIONAL_FIELD_ADDED,
        ChangeKind.VALUE_ADDED,
        ChangeKind.TEXT_CHANGED,
        ChangeKind.UNIT_ADDED,
        ChangeKind.VERSION_RAISED,
    }
)

# A change of any other keyword, unless it is compared separately, is RULE_CHANGED and therefore not allowed.
_KIND_BY_KEYWORD = {
    "title": ChangeKind.TEXT_CHANGED,
    "description": ChangeKind.TEXT_CHANGED,
    "examples": ChangeKind.TEXT_CHANGED,
    "type": ChangeKind.TYPE_CHANGED,
    "pattern": ChangeKind.PATTERN_CHANGED,
    "format": ChangeKind.FORMAT_CHANGED,
    "x-unit": ChangeKind.UNIT_CHANGED,
}
_COMPARED_SEPARATELY = {
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
    """One change between two schemas; `pointer` is a JSON pointer into the described event."""

    kind: ChangeKind
    pointer: str
    detail: str

    @property
    def allowed(self) -> bool:
        """Return whether the change is safe for consumers, and therefore allowed."""
        return self.kind in ALLOWED

    def __str__(self) -> str:
        """Return the change as one line of text."""
        return f"{self.pointer or '/'}: {self.kind.value}: {self.detail}"


Schema = Mapping[str, Any]


def changes(old: Schema, new: Schema) -> list[Change]:
    """Return the changes between two versions of a schema."""
    return list(_Comparison(old, new).compare(old, new, ""))


def breaking_changes(old: Schema, new: Schema) -> list[Change]:
    """Return the changes that are not allowed, because they can break a consumer."""
    return [change for change in changes(old, new) if not change.allowed]


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._roots = (old, new)

    def compare(self, old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
        old, new = _resolved(self._roots[0], old), _resolved(self._roots[1], new)
        yield from _keywords(old, new, pointer)
        yield from _enum_values(old, new, pointer)
        yield from _version(old, new, pointer)
        yield from self._fields(old, new, pointer)
        for keyword in ("items", "additionalProperties"):
            yield from self._nested(old.get(keyword), new.get(keyword), f"{pointer}/*")
        yield from self._branches(old.get("anyOf", []), new.get("anyOf", []), pointer)

    def _fields(self, old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
        before, after = old.get("properties", {}), new.get("properties", {})
        was, now = set(old.get("required", ())), set(new.get("required", ()))
        for name in sorted(set(before) - set(after)):
            yield Change(ChangeKind.FIELD_REMOVED, f"{pointer}/{name}", name)
        for name in sorted(set(after) - set(before)):
            kind = ChangeKind.REQUIRED_FIELD_ADDED if name in now else ChangeKind.OPTIONAL_FIELD_ADDED
            yield Change(kind, f"{pointer}/{name}", name)
        for name in sorted(set(before) & set(after)):
            if (name in was) != (name in now):
                kind = ChangeKind.FIELD_NOW_REQUIRED if name in now else ChangeKind.FIELD_NOW_OPTIONAL
                yield Change(kind, f"{pointer}/{name}", name)
            yield from self.compare(before[name], after[name], f"{pointer}/{name}")

    def _nested(self, old: object, new: object, pointer: str) -> Iterator[Change]:
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from self.compare(old, new, pointer)
        elif old != new:
            yield Change(ChangeKind.TYPE_CHANGED, pointer, f"{old} -> {new}")

    def _branches(self, old: list[Schema], new: list[Schema], pointer: str) -> Iterator[Change]:
        if len(old) != len(new):
            yield Change(ChangeKind.TYPE_CHANGED, pointer, f"{len(old)} alternatives -> {len(new)}")
            return
        for before, after in zip(old, new, strict=True):
            yield from self.compare(before, after, pointer)


def _resolved(root: Schema, node: Schema) -> Schema:
    reference = node.get("$ref")
    if reference is None:
        return node
    target: Schema = root["$defs"][reference.rpartition("/")[2]]
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}


def _keywords(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    for keyword in sorted((set(old) | set(new)) - _COMPARED_SEPARATELY):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        kind = _KIND_BY_KEYWORD.get(keyword, ChangeKind.RULE_CHANGED)
        if keyword == "x-unit" and before is None:
            kind = ChangeKind.UNIT_ADDED
        yield Change(kind, pointer, f"{keyword}: {before} -> {after}")


def _enum_values(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    before, after = old.get("enum"), new.get("enum")
    if before is None and after is None:
        return
    if before is None or after is None:
        yield Change(ChangeKind.TYPE_CHANGED, pointer, f"enum: {before} -> {after}")
        return
    for value in sorted(set(before) - set(after)):
        yield Change(ChangeKind.VALUE_REMOVED, pointer, str(value))
    for value in sorted(set(after) - set(before)):
        yield Change(ChangeKind.VALUE_ADDED, pointer, str(value))


def _version(old: Schema, new: Schema, pointer: str) -> Iterator[Change]:
    before, after = old.get("x-schema-version"), new.get("x-schema-version")
    if before == after:
        return
    raised = (
        before
        and after
        and _version_number(before)[0] == _version_number(after)[0]
        and _version_number(before) < _version_number(after)
    )
    yield Change(
        ChangeKind.VERSION_RAISED if raised else ChangeKind.RULE_CHANGED, pointer, f"version {before} -> {after}"
    )


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
