"""The base of all event models: strict types, open enumerations, scalar types."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
SHA256 = r"^[0-9a-f]{64}$"
PCI = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(\.[0-9a-f])?$"
CASE_ID = r"^c-[a-z2-7]{26}$"


class Model(BaseModel):
    """The base of each part of an event. Unknown fields, which later versions may add, are ignored."""

    # Models are built at first use: a reader pays only for the events that it reads.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


class OpenEnum(StrEnum):
    """An enumeration to which later versions may add values. A reader gets `unknown` for an unknown value.

    Every enumeration has the member `UNKNOWN = "unknown"`. Producers never write it.
    """

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        return cls["UNKNOWN"] if isinstance(value, str) else None

    @classmethod
    def known(cls) -> list[str]:
        """Return the values that this version defines, without `unknown`."""
        return [member.value for member in cls if member.value != "unknown"]

    @classmethod
    def __get_pydantic_json_schema__(cls, _core: Any, _handler: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's hook
        """Return the open JSON Schema, which allows the known values and any other string."""
        return {
            "title": cls.__name__,
            "description": (cls.__doc__ or "").strip(),
            "anyOf": [{"enum": cls.known()}, {"type": "string"}],
            "x-unknown-as": "unknown",
        }


def parse_instant(value: object) -> datetime:
    """Convert the text of a time in an event to a datetime in UTC.

    A datetime is returned unchanged. Text in another format, an impossible date, and a value of another type raise
    `ValueError`.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.fullmatch(INSTANT, value):
        raise ValueError("not an RFC 3339 time in UTC with milliseconds and Z")
    return datetime.fromisoformat(value).astimezone(UTC)


def _render(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{instant.microsecond // 1000:03d}Z"


Instant = Annotated[
    datetime,
    PlainValidator(parse_instant),
    PlainSerializer(_render, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": INSTANT}),
]
EventId = Annotated[str, Field(pattern=UUID, json_schema_extra={"format": "uuid"})]
Sha256 = Annotated[str, Field(pattern=SHA256)]
CaseId = Annotated[str, Field(pattern=CASE_ID)]
Milliseconds = Annotated[int, Field(ge=0, json_schema_extra={"x-unit": "ms"})]
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
