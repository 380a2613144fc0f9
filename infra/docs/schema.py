"""Describes the types of JSON Schema fields as text, for all generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
}


def type_of(field: dict[str, Any], title: Callable[[str], str] = str) -> str:
    """Return the type of a field and its limits as text."""
    limits = [text.format(field[name]) for name, text in LIMITS.items() if name in field]
    if "pattern" in field:
        limits.append(f"pattern `{field['pattern']}`")
    return ", ".join([_kind(field, title), *limits])


def _kind(field: dict[str, Any], title: Callable[[str], str]) -> str:
    union = next((field[name] for name in ("anyOf", "oneOf", "allOf") if name in field), None)
    if "$ref" in field:
        kind = title(field["$ref"].rpartition("/")[2])
    elif union is not None:
        kind = " or ".join(dict.fromkeys(type_of(one, title) for one in union))
    elif "const" in field or "enum" in field:
        kind = " ".join(f"`{one}`" for one in field.get("enum", [field.get("const")]))
    elif field.get("type") == "array":
        kind = f"list of {type_of(field.get('items', {}), title)}"
    elif isinstance(field.get("additionalProperties"), dict):
        kind = f"map to {type_of(field['additionalProperties'], title)}"
    else:
        kind = str(field.get("format", field.get("type", "any JSON")))
    return kind
