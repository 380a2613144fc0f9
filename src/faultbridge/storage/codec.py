"""Domain values to items and back: frozen dataclasses, enums, instants, tuples and mappings, by their annotations.

None, empty tuples and empty mappings are left out, so that a state costs what it holds. Reading ignores what it does
not know and fills what is missing from the defaults: an older writer's item stays readable.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from faultbridge.domain.times import from_text, to_text
from faultbridge.storage.writes import Item, Value

T = TypeVar("T")
_Load = Callable[[Any], Any]
_LOADERS: dict[Any, _Load] = {}


def dump(value: Any) -> Value:
    """Turn a domain value into what an item may hold; raises TypeError on what it may not."""
    if value is None or (isinstance(value, bool | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if is_dataclass(value):
        return _dump_fields(value)
    if isinstance(value, Mapping):
        return {str(key): dump(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return _dump_tuple(value)
    message = f"{type(value).__name__} cannot be stored"
    raise TypeError(message)


def _dump_tuple(value: Any) -> Value:
    names = getattr(value, "_fields", None)
    if names is None:
        return [dump(one) for one in value]
    return {name: dump(one) for name, one in zip(names, value, strict=True)}


def _dump_fields(value: Any) -> Item:
    dumped = {field.name: dump(getattr(value, field.name)) for field in fields(value)}
    return {name: one for name, one in dumped.items() if one is not None and one not in ({}, [])}


def load(kind: type[T], value: Mapping[str, Any]) -> T:
    """Read a domain value back; raises KeyError or ValueError on an item that is none."""
    loaded: T = _loader(kind)(value)
    return loaded


def _loader(kind: Any) -> _Load:
    if kind not in _LOADERS:
        _LOADERS[kind] = _make_loader(kind)
    return _LOADERS[kind]


def _make_loader(kind: Any) -> _Load:
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        return _union([one for one in get_args(kind) if one is not type(None)])
    if origin is tuple:
        return _sequence(get_args(kind)[0])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(get_args(kind)[1])
    if isinstance(kind, type):
        return _scalar(kind)
    return lambda value: value


def _scalar(kind: type) -> _Load:
    if kind is datetime:
        return from_text
    if kind is timedelta:
        return lambda value: timedelta(milliseconds=value)
    if issubclass(kind, Enum):
        return kind
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind)
    return kind


def _union(kinds: list[Any]) -> _Load:
    if len(kinds) > 1:
        return lambda value: value  # text or number: what is kept says itself which of them it is
    inner = _loader(kinds[0])
    return lambda value: None if value is None else inner(value)


def _sequence(kind: Any) -> _Load:
    inner = _loader(kind)
    return lambda value: tuple(inner(one) for one in value)


def _mapping(kind: Any) -> _Load:
    inner = _loader(kind)
    return lambda value: {key: inner(one) for key, one in value.items()}


def _record(kind: Any) -> _Load:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    loaders = [(name, _loader(hints[name])) for name in names]
    empties = {name: made for name in names if (made := _empty(kind, name, hints[name])) is not None}

    def read(value: Mapping[str, Any]) -> Any:
        given = {name: inner(value[name]) for name, inner in loaders if name in value}
        missing = {name: make() for name, make in empties.items() if name not in value}
        return kind(**missing, **given)

    return read


def _empty(kind: Any, name: str, hint: Any) -> Callable[[], Any] | None:
    """Say what a left-out field means where the class has no default of its own."""
    if is_dataclass(kind):
        field = next(one for one in fields(kind) if one.name == name)
        if field.default is not MISSING or field.default_factory is not MISSING:
            return None
    origin = get_origin(hint)
    if origin is tuple:
        return tuple
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    return (lambda: None) if origin in {Union, types.UnionType} else None
