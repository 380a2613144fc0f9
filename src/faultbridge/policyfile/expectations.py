"""Expectations: texts for error messages about what a field of a policy file must contain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from faultbridge.domain.names import did_you_mean
from faultbridge.policyfile.json_schema import resolved, schema_at
from faultbridge.policyfile.schema import DURATION, format_duration


def expectation(error: Mapping[str, Any]) -> str:
    """Return a text that states what the field of a pydantic error must contain, with the allowed values."""
    location: Sequence[int | str] = error["loc"]
    field = schema_at(location)
    if error["type"] == "extra_forbidden":
        return _unknown_field(str(location[-1]), schema_at(location[:-1]))
    if error["type"] == "missing":
        return f"a value is required: {_kind(field)}{_example(field)}"
    if error["type"] == "value_error" and field.get("$comment") != DURATION:
        return str(error["ctx"]["error"])
    null = " or null" if field.get("nullable") else ""
    return f"{_kind(field)}{null} is expected{_example(field)}"


def _unknown_field(name: str, part: Mapping[str, Any]) -> str:
    allowed = list(part.get("properties", {}))
    return f"unknown field; allowed: {', '.join(allowed)}{did_you_mean(name, allowed, 1)}"


def _kind(field: Mapping[str, Any]) -> str:
    if field.get("$comment") == DURATION:
        limits = field["anyOf"][0]
        return f"a duration from {format_duration(limits['minimum'])} to {format_duration(limits['maximum'])}"
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    kind = _KINDS.get(field.get("type", ""), "text")
    most = f" of at most {field['maxItems']} items" if "maxItems" in field else ""
    items = _kind(resolved(field["items"])) if "items" in field else ""
    pattern = f"text that matches {field['pattern']}" if "pattern" in field else ""
    names = ", ".join(field.get("properties", ()))
    bounds = {"low": field.get("minimum"), "high": field.get("maximum")}
    return pattern or kind.format(most=most, items=items, names=names, **bounds)


_KINDS = {
    "array": "a list{most}, each item {items}",
    "object": "a mapping with the fields {names}",
    "integer": "a whole number from {low} to {high}",
    "boolean": "true or false",
}


def _example(field: Mapping[str, Any]) -> str:
    """Return a text such as `, such as 1h30m` with an example of a field's value, or "".

    The text is empty if the field has no example. It is also empty for a choice, a whole number or a boolean, because
    the error text already states the allowed values.
    """
    is_listed = "enum" in field or field.get("type") in {"integer", "boolean"}
    if is_listed or not field.get("examples"):
        return ""
    example = field["examples"][0]
    return f", such as {example if isinstance(example, str) else json.dumps(example)}"
