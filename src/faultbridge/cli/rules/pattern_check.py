"""Compare the fields and values of an EventBridge pattern with the schemas of Faultbridge's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from faultbridge.events.json_schema.build import open_schema
from faultbridge.events.registry import MODULE_OF_EVENT, event_name


class _Problem(NamedTuple):
    """An unknown field in a pattern, or an unknown value of a field.

    `value` is None for an unknown field.
    """

    field: str
    value: str | None
    message: str

    def covers(self, other: _Problem) -> bool:
        """Return whether this problem includes another problem.

        An unknown field includes every problem of this field and of the fields in it. An unknown value includes only an
        equal problem.
        """
        if self.value is None:
            return f"{other.field}.".startswith(f"{self.field}.")
        return (self.field, self.value) == (other.field, other.value)


def pattern_problems(pattern: Mapping[str, Any]) -> list[str]:
    """Return the problems of a pattern: unknown detail-types, unknown fields of `detail`, wrong values.

    A field is unknown if none of the events that the pattern names has this field. The result is empty for a pattern
    for AWS events, because their schemas are not known here.
    """
    if any(str(source).startswith("aws.") for source in pattern.get("source", [])):
        return []
    types = [one for one in pattern.get("detail-type", []) if isinstance(one, str)] or list(MODULE_OF_EVENT)
    unknown = [
        f"unknown detail-type: {one!r}; `faultbridge schema list` lists them"
        for one in types
        if one not in MODULE_OF_EVENT
    ]
    schemas = [open_schema(event_name(one)) for one in types if one in MODULE_OF_EVENT]
    by_type = [list(_problems(pattern.get("detail", {}), schema, schema, "detail")) for schema in schemas]
    # A field that is valid for one event type is valid: the rule may match several types.
    found = {problem: None for problems in by_type for problem in problems if _in_all_types(problem, by_type)}
    return unknown + list(dict.fromkeys(problem.message for problem in found))


def _in_all_types(problem: _Problem, by_type: list[list[_Problem]]) -> bool:
    return all(any(other.covers(problem) for other in problems) for problems in by_type)


def _problems(pattern: object, node: Mapping[str, Any], root: Mapping[str, Any], field: str) -> Iterator[_Problem]:
    """Yield the problems of one part of a pattern.

    `node` is the schema of this part, `root` is the schema of the whole event with the definitions to which `node`
    refers, and `field` is the path of the part, such as `detail.severity`.
    """
    shapes = list(_shapes(node, root))
    if isinstance(pattern, list):
        yield from _value_problems(pattern, shapes, field)
        return
    if not isinstance(pattern, Mapping):
        return
    for name, inner in pattern.items():
        if name == "$or":
            for branch in inner:
                yield from _problems(branch, node, root, field)
            continue
        found = [shape["properties"][name] for shape in shapes if name in shape.get("properties", {})]
        found += [shape["additionalProperties"] for shape in shapes if "additionalProperties" in shape]
        if found:
            yield from _problems(inner, {"anyOf": found}, root, f"{field}.{name}")
        elif shapes != [{}]:
            yield _Problem(f"{field}.{name}", None, f"unknown field: {field}.{name}")


def _value_problems(wanted: list[object], shapes: list[Mapping[str, Any]], field: str) -> Iterator[_Problem]:
    """Yield a problem for each text in `wanted` that the schemas of a field do not allow.

    A text is allowed if one of the schemas lists it, or if none of the schemas lists values.
    """
    allowed = [value for shape in shapes for value in shape.get("enum", [])]
    for value in wanted:
        if allowed and isinstance(value, str) and value not in allowed:
            yield _Problem(field, value, f"unknown value of {field}: {value!r}; allowed: {', '.join(allowed)}")


def _shapes(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the alternative schemas of a field.

    `node` is the schema of the field. It contains the alternatives, or refers to a definition in `root`, the schema of
    the whole event. Otherwise, `node` itself is the only schema.
    """
    if "$ref" in node:
        yield from _shapes(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _shapes(one, root)
    else:
        yield node
