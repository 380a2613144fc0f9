"""Builds JSON Schema 2020-12 from the models: one schema for each event type and major version.

The *open* form is published, for consumers: it accepts fields and values of a later minor version. The *closed* form is
for producers: it accepts only described fields and listed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.events.envelope import Event, EventStub
from faultbridge.events.registry import MODULE_OF_EVENT, STUB, event_name, model_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

MODELS: tuple[type[Event], ...] = tuple(model for one in MODULE_OF_EVENT if (model := model_of(one)) is not None)
EVENT_MODELS: Mapping[str, type[Event]] = {event_name(model.event_type): model for model in MODELS} | {STUB: EventStub}
"""All models by schema name."""


def schema_id(name: str, major: str) -> str:
    """Return the permanent id of a schema. The id is a name and is never fetched."""
    return f"urn:faultbridge:event:{name}:{major}"


def open_schema(name: str) -> Schema:
    """Return the published schema of an event by its name, such as `node-fault-detected`."""
    model = EVENT_MODELS[name]
    schema = model.model_json_schema(by_alias=True)
    schema["description"] = _unwrapped(model.__doc__)
    for definition in schema["$defs"].values():
        definition["description"] = _unwrapped(definition.get("description"))
    if model.event_type:
        _metadata_definition(schema)["properties"]["event_type"] = {
            "const": model.event_type,
            "description": "Equal to the detail-type of the EventBridge event.",
            "title": "Event Type",
            "type": "string",
        }
    head = {
        "$schema": DIALECT,
        "$id": schema_id(name, model.version.partition(".")[0]),
        "title": model.event_type or "Event stub",
        "x-schema-version": model.version,
    }
    return head | {key: value for key, value in schema.items() if key != "title"}


def closed_form(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the closed form of a published schema, which refuses unknown fields and enumeration values."""
    if isinstance(schema, list):
        return [closed_form(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "x-unknown-as" in schema:
        values = schema["anyOf"][0]["enum"]
        return {key: value for key, value in schema.items() if key != "anyOf"} | {"enum": values}
    closed = {key: closed_form(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def _metadata_definition(schema: Schema) -> Schema:
    reference = schema["properties"]["metadata"]["$ref"]
    definition: Schema = schema["$defs"][reference.rpartition("/")[2]]
    return definition


def _unwrapped(docstring: str | None) -> str:
    paragraphs = (docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()
