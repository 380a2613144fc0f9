"""Generates the reference of all events, and of the parts that several of them share, from the event schemas."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from faultbridge.model.events.json_schema import EVENT_MODELS, Schema, open_schema
from faultbridge.model.events.registry import STUB
from infra.docs.markdown import code, page, table

PARTS_PAGE = "event-parts.md"
INTRODUCTION = """\
The schemas are `schemas/<event>/v1.json`, with samples beside them. Reasons for the design:
[decisions/0002-event-contract.md](../decisions/0002-event-contract.md).

An event on the bus has the stack's `source` (`faultbridge` by default), the event name below as its `detail-type`, and
a `detail` with `metadata` and `data`. Times are RFC 3339 in UTC with milliseconds. A listed field is always present
unless it is marked *optional*. Enumerations are open: read an unknown value as `unknown`, and ignore unknown fields.
[Parts of events](event-parts.md) has the types that several events share, and all enumerations.

The bus delivers at least once and in any order. Use `event_id` to recognize duplicates. Use `stream`, `epoch` and
`sequence` to order events and to prove that none is missing; `examples/consumer` does both."""


def generate() -> str:
    """Return the reference page of all events."""
    schemas, shared = _schemas()
    sections = ["## metadata", _fields(shared["MetadataV1"], PARTS_PAGE)]
    for name, schema in schemas.items():
        if name != STUB:
            sections += _event(name, schema)
    stub = schemas[STUB]
    sections += ["## Stubs", f'{stub["description"]} Its `metadata.truncated` is `["*"]`. Schema `{STUB}`.']
    return page("Events", INTRODUCTION, *sections)


def parts() -> str:
    """Return the reference page of the types and enumerations that several events share."""
    shared = _schemas()[1]
    sections = []
    for name, definition in sorted(shared.items()):
        if _is_part(name, definition):
            sections += [f"## {name}", definition["description"], _fields(definition, "")]
    rows = [
        (name, " ".join(map(code, definition["anyOf"][0]["enum"])), definition["description"])
        for name, definition in sorted(shared.items())
        if "x-unknown-as" in definition
    ]
    return page(
        "Parts of events",
        "Types that the fields of several [events](events.md) have.",
        *sections,
        "## Enumerations",
        "All enumerations are open: more values may be added.",
        table(["enumeration", "values", "meaning"], rows),
    )


@cache
def _schemas() -> tuple[dict[str, Schema], dict[str, Schema]]:
    """Return the schema of each event, and all definitions by name."""
    schemas = {name: open_schema(name) for name in EVENT_MODELS}
    shared: dict[str, Schema] = {}
    for schema in schemas.values():
        shared |= schema["$defs"]
    return schemas, shared


def _is_part(name: str, definition: Schema) -> bool:
    return definition.get("type") == "object" and not name.endswith(("Metadata", "MetadataV1", "Data"))


def _event(name: str, schema: Schema) -> Iterator[str]:
    data = schema["$defs"][_definition_name(schema["properties"]["data"])]
    yield f"## {schema['title']}"
    yield schema["description"]
    yield f"Schema `{name}`, version {schema['x-schema-version']}. `data`: {data['description']}"
    yield _fields(data, PARTS_PAGE)


def _fields(definition: Schema, target: str) -> str:
    """Return the table of the fields of a definition; `target` is the page of the types that it names."""
    required = set(definition.get("required", ()))
    rows = [
        (code(name), _type(field, target), ("" if name in required else "*optional*. ") + field.get("description", ""))
        for name, field in definition["properties"].items()
    ]
    return table(["field", "type", "description"], rows)


def _type(field: Schema, target: str) -> str:
    if "$ref" in field:
        return _reference(_definition_name(field), target)
    if "anyOf" in field:
        return " or ".join(_type(choice, target) for choice in field["anyOf"])
    if "const" in field:
        return code(field["const"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'], target)}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'], target)}"
    unit = f" ({field['x-unit']})" if "x-unit" in field else ""
    return f"{field.get('format', field.get('type', 'any JSON'))}{unit}"


def _reference(name: str, target: str) -> str:
    """Return the name of a type as a link to its section or to the enumerations."""
    if name == "JsonValue":
        return "any JSON"
    definition = _schemas()[1][name]
    if _is_part(name, definition):
        return f"[{name}]({target}#{name.lower()})"
    return f"[{name}]({target}#enumerations)" if "x-unknown-as" in definition else name


def _definition_name(field: Schema) -> str:
    name: str = field["$ref"].rpartition("/")[2]
    return name
