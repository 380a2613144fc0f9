"""Codec: converts domain values to item attributes and back, by the type annotations of their fields.

It supports plain values, frozen dataclasses, named tuples, enums, times, durations, tuples and mappings. Fields of a
dataclass with None, an empty tuple or an empty mapping are not stored. Unknown attributes are ignored. A missing
attribute gets its field's default or an empty value, so that items of older and newer releases stay readable.

Large values are packed: compressed to bytes, because DynamoDB charges for reads and writes by size. Compression uses a
dictionary of texts that most items contain, so that a node with two faults fits into one write unit. The first byte is
the dictionary's number. A dictionary (`packing-1.txt`) never changes; a new one gets the next number.
"""

from __future__ import annotations

import json
import types
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from faultbridge.model.copies import maker
from faultbridge.model.dataclass import dataclass
from faultbridge.model.storage.writes import Item, Packed, Value
from faultbridge.model.times import from_text, to_text

T = TypeVar("T")
_Load = Callable[[Any], Any]
_Pack = Callable[[object], Packed]
_Unpack = Callable[[Value], dict[str, Any]]
PACKED_WITH = 1
"""The number of the dictionary with which values are packed now."""
_LOADERS: dict[Any, _Load] = {}
_Dump = Callable[[Any], Value]
_DUMPERS: dict[type, _Dump] = {}
_PLAIN = frozenset({str, int, bool, types.NoneType})
"""Types that are stored unchanged. Checked first, because most fields have such a type."""
_CONTAINERS = dict, list
"""The types of attributes that are not stored when they are empty."""


def dump(value: Any) -> Value:
    """Convert a domain value to an item attribute; an unsupported type raises TypeError."""
    kind = type(value)
    dumper = _DUMPERS.get(kind)
    if dumper is None:
        dumper = _DUMPERS[kind] = _make_dumper(kind)
    return dumper(value)


def _make_dumper(kind: type) -> _Dump:
    if issubclass(kind, Enum):
        return {member: str(member.value) for member in kind}.__getitem__
    if issubclass(kind, bool | int | str | types.NoneType):
        return lambda value: value
    if issubclass(kind, datetime):
        return to_text
    if issubclass(kind, timedelta):
        return lambda value: value // timedelta(milliseconds=1)
    if is_dataclass(kind):
        return _fields_dumper(tuple(field.name for field in fields(kind)))
    if issubclass(kind, Mapping):
        return lambda value: {str(key): (_DUMPERS.get(type(item)) or dump)(item) for key, item in value.items()}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return lambda value: {name: dump(item) for name, item in zip(value._fields, value, strict=True)}
    if issubclass(kind, tuple | list):
        return lambda value: [dump(item) for item in value]
    message = f"unsupported type in an item: {kind.__name__}; allowed: dataclasses, enums, times, text and integers"
    raise TypeError(message)


def _fields_dumper(names: tuple[str, ...]) -> _Dump:
    read_all = attrgetter(*names, *names[:1])  # the first name again, so that one field also gives a tuple

    def write(value: Any) -> Item:
        item: Item = {}
        for name, attribute in zip(names, read_all(value), strict=False):
            if attribute is None:
                continue
            kind = type(attribute)
            if kind in _PLAIN:
                item[name] = attribute
                continue
            dumped = (_DUMPERS.get(kind) or dump)(attribute)
            if dumped or not isinstance(dumped, _CONTAINERS):
                item[name] = dumped
        return item

    return write


def load(kind: type[T], value: Mapping[str, Any]) -> T:
    """Convert an item attribute to a value of the type `kind`.

    An invalid attribute raises, for example, KeyError, TypeError, ValueError or AttributeError.
    """
    loaded: T = _loader(kind)(value)
    return loaded


def wrap_codec(kinds: Iterable[type], wrap_load: Callable[[_Load], _Load], wrap_dump: Callable[[_Dump], _Dump]) -> None:
    """Wrap the functions that load and dump values of these types, for example to cache their results.

    The function of a type calls those of its fields' types, so `kinds` must list the types of the fields first.
    """
    _LOADERS.clear()
    _DUMPERS.clear()
    for kind in kinds:
        _LOADERS[kind], _DUMPERS[kind] = wrap_load(_make_loader(kind)), wrap_dump(_make_dumper(kind))


def _loader(kind: Any) -> _Load:
    if kind not in _LOADERS:
        _LOADERS[kind] = _make_loader(kind)
    return _LOADERS[kind]


def _make_loader(kind: Any) -> _Load:
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        return _union_loader([member for member in get_args(kind) if member is not type(None)])
    if origin is tuple:
        return _tuple_loader(get_args(kind)[0])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_loader(get_args(kind)[1])
    if isinstance(kind, type):
        return _class_loader(kind)
    return lambda value: value


def _class_loader(kind: type) -> _Load:
    if kind is datetime:
        return from_text
    if kind is timedelta:
        return lambda value: timedelta(milliseconds=value)
    if issubclass(kind, Enum):
        return _enum_loader(kind)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _fields_loader(kind)
    return kind


def _enum_loader(kind: type[Enum]) -> _Load:
    members = {member.value: member for member in kind}
    # For an unknown value, calling the class raises the usual ValueError.
    return lambda value: members.get(value) or kind(value)


def _union_loader(kinds: list[Any]) -> _Load:
    if len(kinds) > 1:
        return lambda value: value  # text or number: stored and loaded unchanged
    inner = _loader(kinds[0])
    return lambda value: None if value is None else inner(value)


def _tuple_loader(kind: Any) -> _Load:
    inner = _loader(kind)
    return lambda value: tuple(inner(item) for item in value)


def _mapping_loader(kind: Any) -> _Load:
    inner = _loader(kind)
    return lambda value: {key: inner(item) for key, item in value.items()}


def _fields_loader(kind: Any) -> _Load:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    loaders = {name: _loader(hints[name]) for name in names}
    empty = {name: make for name in names if (make := _make_empty(kind, name, hints[name])) is not None}
    create = maker(kind)

    def read(value: Mapping[str, Any]) -> Any:
        arguments = {name: loaders[name](part) for name, part in value.items() if name in loaders}
        for name, make_empty in empty.items():
            if name not in arguments:
                arguments[name] = make_empty()
        return create(arguments)

    return read


def _make_empty(kind: Any, name: str, hint: Any) -> Callable[[], Any] | None:
    if is_dataclass(kind):
        field = next(field for field in fields(kind) if field.name == name)
        if field.default is not MISSING or field.default_factory is not MISSING:
            return None
    origin = get_origin(hint)
    if origin is tuple:
        return tuple
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict
    return (lambda: None) if origin in {Union, types.UnionType} else None


def pack(value: object) -> Packed:
    """Return a JSON object as compressed bytes, by `compress` or the wrapper that `wrap_packing` has set."""
    return _PACKING.pack(value)


def unpack(packed: Value) -> dict[str, Any]:
    """Return the JSON object from the bytes of `pack`."""
    return _PACKING.unpack(packed)


def compress(value: object) -> Packed:
    """Return a JSON object as compressed bytes; the same JSON text gives the same bytes."""
    packer = zlib.compressobj(level=9, zdict=_dictionary(PACKED_WITH))
    compressed = packer.compress(json.dumps(value, separators=(",", ":")).encode()) + packer.flush()
    return Packed(bytes((PACKED_WITH,)) + compressed)


def decompress(packed: Value) -> dict[str, Any]:
    """Return the JSON object in compressed bytes; raises ValueError if a later version compressed them."""
    if not isinstance(packed, Packed):
        raise ValueError("the value is not packed bytes")  # noqa: TRY004 - as for other damaged items
    number, content = packed[0], packed[1:]
    if number > PACKED_WITH:
        raise ValueError(f"the item needs dictionary {number} of a later version")
    unpacker = zlib.decompressobj(zdict=_dictionary(number))
    return cast("dict[str, Any]", json.loads(unpacker.decompress(content) + unpacker.flush()))


@cache
def _dictionary(number: int) -> bytes:
    return Path(__file__).with_name(f"packing-{number}.txt").read_bytes()


def wrap_packing(wrap_pack: Callable[[_Pack], _Pack], wrap_unpack: Callable[[_Unpack], _Unpack]) -> None:
    """Make `pack` and `unpack` call wrappers of `compress` and `decompress`, for example to cache the results."""
    _PACKING.pack, _PACKING.unpack = wrap_pack(compress), wrap_unpack(decompress)


@dataclass
class _Packing:
    pack: _Pack
    unpack: _Unpack


_PACKING = _Packing(compress, decompress)
