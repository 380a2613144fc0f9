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
_Dump = Callable[[Any], Value]
_DUMPERS: dict[type, _Dump] = {}
_PLAIN = frozenset({str, int, bool, types.NoneType})
"""What an item holds as it is. Asked first, for most fields are such: states are written and read all day."""


def dump(value: Any) -> Value:
    """Turn a domain value into what an item may hold; raises TypeError on what it may not."""
    kind = type(value)
    dumper = _DUMPERS.get(kind)
    if dumper is None:
        dumper = _DUMPERS[kind] = _make_dumper(kind)
    return dumper(value)


def _make_dumper(kind: type) -> _Dump:
    if issubclass(kind, Enum):
        return lambda value: str(value.value)
    if issubclass(kind, bool | int | str | types.NoneType):
        return lambda value: value
    if issubclass(kind, datetime):
        return to_text
    if issubclass(kind, timedelta):
        return lambda value: value // timedelta(milliseconds=1)
    if is_dataclass(kind):
        return _fields_dumper(tuple(field.name for field in fields(kind)))
    if issubclass(kind, Mapping):
        return lambda value: {str(key): dump(one) for key, one in value.items()}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return lambda value: {name: dump(one) for name, one in zip(value._fields, value, strict=True)}
    if issubclass(kind, tuple | list):
        return lambda value: [dump(one) for one in value]
    message = f"{kind.__name__} cannot be stored"
    raise TypeError(message)


def _fields_dumper(names: tuple[str, ...]) -> _Dump:
    def write(value: Any) -> Item:
        item: Item = {}
        for name in names:
            one = getattr(value, name)
            if type(one) not in _PLAIN:
                one = dump(one)
                if not one and isinstance(one, dict | list):
                    continue
            if one is not None:
                item[name] = one
        return item

    return write


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
        return _member(kind)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind)
    return kind


def _member(kind: type[Enum]) -> _Load:
    members = {one.value: one for one in kind}
    # The class itself, asked for what it does not know, says so.
    return lambda value: members.get(value) or kind(value)


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
    loaders = [(name, _loader(hints[name]), _empty(kind, name, hints[name])) for name in names]

    def read(value: Mapping[str, Any]) -> Any:
        given = {}
        for name, inner, empty in loaders:
            if name in value:
                given[name] = inner(value[name])
            elif empty is not None:
                given[name] = empty()
        return kind(**given)

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
