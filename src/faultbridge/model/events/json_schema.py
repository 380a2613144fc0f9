"""Builds JSON Schema 2020-12 from the models: one schema for each event type and major version.

The *open* form is published, for consumers: it accepts fields and values of a later minor version. The *closed* form is
for producers: it accepts only described fields and listed values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from faultbridge.model.enums import UUID
from faultbridge.model.events.enums import parse_instant
from faultbridge.model.events.envelope import Event, EventStub
from faultbridge.model.events.registry import MODULE_OF_EVENT, STUB, event_name, model_of, schema_name

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

MODELS: tuple[type[Event], ...] = tuple(model for one in MODULE_OF_EVENT if (model := model_of(one)) is not None)
EVENT_MODELS: Mapping[str, type[Event]] = {event_name(model.event_type): model for model in MODELS} | {STUB: EventStub}
"""All models by schema name."""


def schema_id(name: str, major: str) -> str:
    """Return the permanent id of a schema. The id is a name and is never fetched."""
    return f"urn:faultbridge:event:{name}:{major}"


@cache
def open_schema(name: str) -> Schema:
    """Return the published schema of an event by its name, such as `node-fault-detected`; callers do not change it."""
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


FORMATS = FormatChecker(formats=())
MAX_MESSAGE = 200


@FORMATS.checks("date-time", raises=ValueError)
def _is_instant(value: object) -> bool:
    return not isinstance(value, str) or bool(parse_instant(value))


@FORMATS.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(UUID, value) is not None


def _pattern(_validator: object, pattern: str, value: object, _schema: object) -> Iterator[ValidationError]:
    # In Python, `$` also matches before a trailing line break; in JSON Schema it does not.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: type[Validator] = extend(  # type: ignore[no-untyped-call]  # published without types
    Draft202012Validator, {"pattern": _pattern}
)


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """Return a validator of a schema that also checks formats."""
    return _Validator(schema, format_checker=FORMATS)


@cache
def validator(name: str, *, closed: bool) -> Validator:
    """Return the validator of an event by its schema name, for the closed or the open form of the schema."""
    schema = open_schema(name)
    return validator_of(closed_form(schema) if closed else schema)


def problems(detail: object, *, closed: bool) -> list[str]:
    """Return the problems of an event's `detail`, one line each; the list is empty for a valid event.

    In the open form, an unknown event type is valid, because consumers ignore such events.
    """
    if not isinstance(detail, dict) or not isinstance(detail.get("metadata"), dict):
        return ["not an event: expected a JSON object with metadata and data, both JSON objects"]
    name = schema_name(detail["metadata"])
    if name is None:
        message = f"/metadata/event_type: unknown event type: {detail['metadata'].get('event_type')!r}"
        return [message] if closed or "event_type" not in detail["metadata"] else []
    return sorted(error_line(error) for error in validator(name, closed=closed).iter_errors(detail))


def error_line(error: ValidationError) -> str:
    """Return the JSON pointer and the message of a validation error in one line; a long message is cut."""
    pointer = "".join(f"/{part}" for part in error.absolute_path)
    text = error.message if len(error.message) <= MAX_MESSAGE else f"{error.message[:MAX_MESSAGE]}..."
    return f"{pointer or '/'}: {text}"
