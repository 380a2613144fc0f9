"""The base model of events, their scalar types, and how events read enumerations.

`Open[Severity]` is the type of a field with an enumeration. The docstring of each enumeration states how to treat an
unknown value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

from faultbridge.model.enums import (
    CASE_ID,
    BreakerScope,
    ConditionKind,
    DomainKind,
    IncidentChangeKind,
    Outlook,
    ProviderFailure,
    RepairAction,
)
from faultbridge.model.fault_enums import Action, ComponentType, Family, Severity

INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"


class Model(BaseModel):
    """The base of each part of an event. Unknown fields, which later versions may add, are ignored."""

    # Models are built at first use: a reader pays only for the events that it reads.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)


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
CaseId = Annotated[str, Field(pattern=f"^{CASE_ID}$")]
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class Unknown(StrEnum):
    """What a reader gets for a value that a later version added. Producers never write it."""

    UNKNOWN = "unknown"


class _Open:
    """Reads an enumeration to which later versions may add values, and publishes its open JSON Schema."""

    def __get_pydantic_core_schema__(self, source: Any, _handler: object) -> dict[str, Any]:  # noqa: ANN401 - pydantic's hook
        kind: type[StrEnum] = get_args(source)[0]
        title = _TITLES.get(kind, kind.__name__)

        def parse(value: object) -> StrEnum:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} is not a valid {title}")  # noqa: TRY004 - pydantic reports this error
            return kind(value) if value in kind._value2member_map_ else Unknown.UNKNOWN

        def schema(_core: object, _handler: object) -> dict[str, Any]:
            return {
                "title": title,
                "description": _DESCRIPTIONS.get(kind, kind.__doc__),
                "anyOf": [{"enum": [member.value for member in kind]}, {"type": "string"}],
                "x-unknown-as": "unknown",
            }

        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": parse},
            "ref": f"{__name__}.{title}:{id(kind)}",
            "metadata": {"pydantic_js_functions": [schema]},
        }


_Known = TypeVar("_Known", bound=StrEnum)
Open = Annotated[_Known | Unknown, _Open()]
"""The type of a field with an enumeration: one of its values, or `Unknown.UNKNOWN` for any other text."""

_TITLES: Mapping[type[StrEnum], str] = {
    BreakerScope: "SafetyScope",
    ConditionKind: "ProviderConditionKind",
    DomainKind: "DomainType",
    Family: "FaultFamily",
    IncidentChangeKind: "IncidentChange",
    Outlook: "RestartVerdict",
    ProviderFailure: "FailureReason",
}
"""The published names of enumerations that have another name in the code."""

_MILDEST_FIRST = "The values are listed from the mildest to the strongest action."
_DESCRIPTIONS: Mapping[type[StrEnum], str] = {
    Action: f"The recommended action for a fault. Treat an unknown value as `contact_support`.\n\n{_MILDEST_FIRST}",
    BreakerScope: "The scope of a safety control: cluster or failure domain. Treat an unknown value as `cluster`.",
    ComponentType: "The type of a component. Treat an unknown value as a component without a runbook.",
    RepairAction: f"A repair action. Treat an unknown value as `replace_node`.\n\n{_MILDEST_FIRST}",
    Severity: "The severity of a fault. Treat an unknown value as `error`.\n\n"
    "`error`: the node must be drained and repaired. `fatal`: the node is already unusable.",
}
"""The published descriptions of enumerations whose docstrings are for authors of policies and of requests."""
