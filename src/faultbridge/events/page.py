"""The reference page of all events, written from the same models as the schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faultbridge.events.models import BY_NAME
from faultbridge.events.registry import STUB
from faultbridge.events.schemas import open_schema

HEAD = """# Events

Written by `python -m faultbridge.events.generate`; do not edit. The schemas are in `schemas/<event>/v1.json`, samples
of each beside them. Why the contract is as it is: [decisions/0002-event-contract.md](decisions/0002-event-contract.md).

An event on the bus has the stack's `source` (`faultbridge` unless set otherwise), the name below as its `detail-type`
and a `detail` of `metadata` and `data`. Times are RFC 3339 in UTC with milliseconds. A field that is listed here is
always there unless it is marked *optional*. Lists of words are open: read a
word that you do not know as `unknown`, and a field that you do not know not at all.

The bus delivers at least once and in any order. `event_id` tells a repeat, `stream`, `epoch` and `sequence` give the
order and prove that nothing is missing; `examples/consumer` does both.
"""

Schema = dict[str, Any]


def page() -> str:
    """Return the whole page as Markdown."""
    schemas = {name: open_schema(name) for name in BY_NAME}
    shared: dict[str, Schema] = {}
    for schema in schemas.values():
        shared |= schema["$defs"]
    parts = [HEAD, *_metadata(shared)]
    for name, schema in schemas.items():
        if name != STUB:
            parts += _event(name, schema)
    return "\n".join((*parts, *_parts(shared), *_words(shared), *_stub(schemas[STUB]))) + "\n"


def _metadata(shared: dict[str, Schema]) -> Iterator[str]:
    yield "## metadata\n"
    yield from _fields(shared["MetadataV1"])


def _event(name: str, schema: Schema) -> Iterator[str]:
    data = schema["$defs"][_name_of(schema["properties"]["data"])]
    yield f"\n## {schema['title']}\n"
    yield f"{schema['description']}\n"
    yield f"Schema `{name}`, version {schema['x-schema-version']}. `data`: {data['description']}\n"
    yield from _fields(data)


def _fields(definition: Schema) -> Iterator[str]:
    required = set(definition.get("required", ()))
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, field in definition["properties"].items():
        optional = "" if name in required else "*optional*. "
        yield f"| `{name}` | {_type(field)} | {optional}{_cell(field.get('description', ''))} |"


def _parts(shared: dict[str, Schema]) -> Iterator[str]:
    yield "\n## Parts\n"
    for name, definition in sorted(shared.items()):
        if definition.get("type") == "object" and not name.endswith(("Metadata", "MetadataV1", "Data")):
            yield f"\n### {name}\n\n{definition['description']}\n"
            yield from _fields(definition)


def _words(shared: dict[str, Schema]) -> Iterator[str]:
    yield "\n## Words\n\nEach list is open.\n"
    yield "| list | words | meaning |"
    yield "|---|---|---|"
    for name, definition in sorted(shared.items()):
        if "x-unknown-as" in definition:
            words = " ".join(f"`{word}`" for word in definition["anyOf"][0]["enum"])
            yield f"| {name} | {words} | {_cell(definition['description'])} |"


def _stub(schema: Schema) -> Iterator[str]:
    yield f'\n## Stubs\n\n{schema["description"]} Its `metadata.truncated` is `["*"]`. Schema `{STUB}`.'


def _type(field: Schema) -> str:
    if "$ref" in field:
        name = _name_of(field)
        return "any JSON" if name == "JsonValue" else name
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    unit = f" ({field['x-unit']})" if "x-unit" in field else ""
    return f"{field.get('format', field.get('type', 'any JSON'))}{unit}"


def _name_of(field: Schema) -> str:
    name: str = field["$ref"].rpartition("/")[2]
    return name


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
