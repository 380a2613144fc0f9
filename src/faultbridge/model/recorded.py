"""Recorded events: what a stored or published event states, also if a later release wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from faultbridge.model.entries import EntryMetadata
from faultbridge.model.event_data import EVENTS, EventData
from faultbridge.model.events.wire import EventDocument
from faultbridge.model.times import EPOCH, from_text

D = TypeVar("D")
S = TypeVar("S", bound=Struct)

_KINDS = {entry_type.value: kind for entry_type, (kind, _) in EVENTS.items()}


class RecordedEvent(Struct, Generic[D], frozen=True, kw_only=True):
    """The metadata and the data of an event; `data` is None for an unknown type, and for an event without data."""

    metadata: EntryMetadata
    data: D


def read_event(event: EventDocument) -> RecordedEvent[EventData | None]:
    """Return an event from its JSON object; `as_structure` states what an invalid value becomes."""
    return RecordedEvent(metadata=as_structure(EntryMetadata, event["metadata"]), data=read_data(event))


def read_data(event: EventDocument) -> EventData | None:
    """Return the data of an event from its JSON object; None for an unknown type, and for an event without data."""
    kind, data = _KINDS.get(str(event["metadata"]["event_type"])), event.get("data")
    return as_structure(kind, data) if kind and data else None


def as_structure(kind: type[S], value: Mapping[str, object]) -> S:
    """Return a JSON object as a structure.

    A later release may have written other values. A text that is no value of its vocabulary, or breaks a limit, is kept
    as it is, so compare values of vocabularies with `==`. A missing value is null if the field permits it, else
    empty, or the start of 1970.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeError):  # a surrogate is no valid text for msgspec
        return _structure(kind, value)


def _structure(kind: type[S], value: Mapping[str, object]) -> S:
    listed = msgspec.structs.fields(kind)
    found = ((one, value.get(one.encode_name)) for one in listed)
    given = {one.name: _value(one.type, part) for one, part in found if part is not None}
    return kind(**{one.name: _missing(one.type) for one in listed if one.required} | given)


def _missing(hint: object) -> Any:  # noqa: ANN401 - of the type of the field
    kind, nullable = _kind_in(hint)
    if nullable:
        return None
    if kind is datetime:
        return EPOCH
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _structure(kind, {})
    return "" if isinstance(kind, type) and issubclass(kind, StrEnum) else (get_origin(kind) or kind)()


def _value(hint: Any, value: Any) -> Any:  # noqa: ANN401 - any annotation and JSON
    kind, _ = _kind_in(hint)
    parts = get_args(kind)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, Struct):
        return _structure(kind, value)
    if isinstance(value, list | tuple) and parts:
        return tuple(_value(parts[0], one) for one in value)
    if isinstance(value, dict) and parts:
        return {name: _value(parts[1], one) for name, one in value.items()}
    if isinstance(value, str) and isinstance(kind, type) and issubclass(kind, StrEnum | datetime):
        try:
            return kind(value) if issubclass(kind, StrEnum) else from_text(value)
        except ValueError:
            return value
    return value


def _kind_in(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - any annotation
    """Return the class in an annotation, without limits and null, and whether the annotation permits null."""
    nullable = False
    while get_origin(hint) in {Annotated, Union, UnionType}:
        nullable |= NoneType in get_args(hint)
        hint = next(one for one in get_args(hint) if one not in {NoneType, UnsetType})
    return hint, nullable
