"""Validates events against their JSON Schemas, formats included, for tests, CI and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from faultbridge.events.base import UUID, parse_instant
from faultbridge.events.json_schema.build import closed_form, open_schema
from faultbridge.events.registry import schema_name

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
