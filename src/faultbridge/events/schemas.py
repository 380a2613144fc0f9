"""JSON Schema 2020-12 from the models: one schema a type and major version, in two readings.

What is published is the *open* reading, for consumers: fields and words of a later minor version pass. The *closed*
reading is for producers: no field that is not described, no word that is not listed.
"""

from __future__ import annotations

from typing import Any

from faultbridge.events.models import BY_NAME

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def schema_id(name: str, major: str) -> str:
    """Name a schema for ever; the name is an identifier and is never fetched."""
    return f"urn:faultbridge:event:{name}:{major}"


def open_schema(name: str) -> Schema:
    """Return the published schema of an event by its name, such as `node-fault-detected`."""
    model = BY_NAME[name]
    made = model.model_json_schema(by_alias=True)
    made["description"] = _prose(model.__doc__)
    for definition in made["$defs"].values():
        definition["description"] = _prose(definition.get("description"))
    if model.event_type:
        _metadata_of(made)["properties"]["event_type"] = {
            "const": model.event_type,
            "description": "The same as the detail-type of the EventBridge event.",
            "title": "Event Type",
            "type": "string",
        }
    head = {
        "$schema": DIALECT,
        "$id": schema_id(name, model.version.partition(".")[0]),
        "title": model.event_type or "Event stub",
        "x-schema-version": model.version,
    }
    return head | {key: value for key, value in made.items() if key != "title"}


def close(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the closed reading of a published schema."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "x-unknown-as" in schema:
        words = schema["anyOf"][0]["enum"]
        return {key: value for key, value in schema.items() if key != "anyOf"} | {"enum": words}
    closed = {key: close(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


def _metadata_of(schema: Schema) -> Schema:
    reference = schema["properties"]["metadata"]["$ref"]
    found: Schema = schema["$defs"][reference.rpartition("/")[2]]
    return found


def _prose(docstring: str | None) -> str:
    paragraphs = (docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()
