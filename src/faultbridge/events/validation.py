"""Validation by JSON Schema, formats asserted. Off the hot path: for tests, for CI and for the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from faultbridge.events.base import UUID, parse_instant
from faultbridge.events.registry import schema_name
from faultbridge.events.schemas import close, open_schema

FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def _is_instant(value: object) -> bool:
    return not isinstance(value, str) or bool(parse_instant(value))


@FORMATS.checks("uuid")
def _is_uuid(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(UUID, value) is not None


def _pattern(_validator: object, pattern: str, value: object, _schema: object) -> Iterator[ValidationError]:
    # Python's `$` also matches before a last line break; that of JSON Schema does not.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: type[Validator] = extend(  # type: ignore[no-untyped-call]  # published without types
    Draft202012Validator, {"pattern": _pattern}
)


def validator_of(schema: Mapping[str, Any]) -> Validator:
    """Make a validator of a schema that asserts formats."""
    return _Validator(schema, format_checker=FORMATS)


@cache
def validator(name: str, *, closed: bool) -> Validator:
    """Return the validator of an event by its name, in the closed or the open reading."""
    schema = open_schema(name)
    return validator_of(close(schema) if closed else schema)


def problems(detail: object, *, closed: bool) -> list[str]:
    """Say what is wrong with the `detail` of an event, one line a problem; nothing for one that is right.

    In the open reading a type that this version does not know is no problem: a consumer passes it over.
    """
    if not isinstance(detail, dict) or not isinstance(detail.get("metadata"), dict):
        return ["an event has metadata and data, both JSON objects"]
    name = schema_name(detail["metadata"])
    if name is None:
        unknown = f"/metadata/event_type: {detail['metadata'].get('event_type')!r} is no event type of this version"
        return [unknown] if closed or "event_type" not in detail["metadata"] else []
    return sorted(line(error) for error in validator(name, closed=closed).iter_errors(detail))


def line(error: ValidationError) -> str:
    """Say where a validation failed and why, in one line of bounded length."""
    place = "".join(f"/{part}" for part in error.absolute_path)
    text = error.message if len(error.message) <= MAX_TEXT else f"{error.message[:MAX_TEXT]}..."
    return f"{place or '/'}: {text}"


MAX_TEXT = 200
