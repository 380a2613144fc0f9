"""The JSON Schema of policy files, for editors and for error texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from faultbridge.policyfile.schema import PolicyPart

SCHEMA_ID = "urn:faultbridge:input:policy:1"
FIELDS = "fields.yaml"


@cache
def field_guide() -> Mapping[str, Mapping[str, str]]:
    """Return the `meaning` and an `example` of each field, by a key such as `limits.concurrent`."""
    text = files(__package__).joinpath(FIELDS).read_text(encoding="utf-8")
    guide: dict[str, dict[str, str]] = yaml.safe_load(text)
    return guide


def part_title(name: str) -> str:
    """Return the title of a part of a policy from its class name: `LimitsPart` becomes `limits`.

    Words are separated: `ComponentType` becomes `component type`.
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Part")).lower()


@cache
def policy_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of policy files, with the meaning and an example of each field."""
    schema = PolicyPart.model_json_schema()
    for name, part in [(PolicyPart.__name__, schema), *schema["$defs"].items()]:
        for field, described in part.get("properties", {}).items():
            guide = field_guide()[f"{part_title(name)}.{field}"]
            described |= {"description": guide["meaning"], "examples": [yaml.safe_load(guide["example"])]}
            described.pop("title", None)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "Faultbridge policy"}
    return {**head, **{name: value for name, value in schema.items() if name != "title"}}


def schema_at(location: Iterable[int | str]) -> Mapping[str, Any]:
    """Return the schema of the field at a location in a policy file; empty for an unknown field."""
    found: Mapping[str, Any] = policy_schema()
    for part in location:
        inner = found.get("items", {}) if isinstance(part, int) else found.get("properties", {}).get(part, {})
        found = resolved(inner)
    return found


def resolved(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the JSON Schema of a field with its own `$ref` resolved.

    The `$ref` is replaced by the definition to which it refers; references inside the definition remain. If the field
    allows null and one other type, the result is the schema of that type with the additional member `nullable`.
    """
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return {**policy_schema()["$defs"][name], **{key: field[key] for key in field if key != "$ref"}}
    choices = [*_without_null(field.get("anyOf", ()))]
    if len(choices) == 1:
        return {**field, **resolved(choices[0]), "nullable": True}
    return field


def _without_null(choices: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (one for one in choices if one.get("type") != "null")
