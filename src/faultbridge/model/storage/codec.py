"""Codec: converts values of msgspec classes to item attributes and back, by the types of their fields.

The stored form is that of msgspec in JSON: times and durations as ISO 8601 text, and no attribute whose field has its
default. A missing attribute gets the default of its field. Attributes that a class does not know, because a later
release wrote them, are kept in `Stored.unknown_attributes`, and written back where they were.

Large values are packed: compressed to bytes, because DynamoDB charges for reads and writes by size. Compression uses a
dictionary of texts that most items contain, so that a node with two faults, and most entries, fit into one write unit.
The first byte is the dictionary's number. A dictionary (`packing-1.txt`) never changes; a new one gets the next number.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from faultbridge.model.faults import Component
from faultbridge.model.storage.writes import Packed, Value

T = TypeVar("T")
PACKED_WITH, BODIES_PACKED_WITH = 1, 2
"""The numbers of the dictionaries with which values, and the bodies of entries, are packed now."""


_UNKNOWN = b'"unknown_attributes":{'


def dump(value: object) -> Any:
    """Convert a value to an item attribute; raises TypeError for a type that an item cannot contain."""
    return msgspec.json.decode(encode(value))


def load(kind: type[T], value: object) -> T:
    """Convert an item attribute to a value of the type `kind`; raises ValueError for an invalid attribute.

    An integer stands for a duration in seconds.
    """
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_read_component)
    except msgspec.ValidationError:
        return msgspec.convert(_set_apart(kind, value), kind, strict=False, dec_hook=_read_component)


def encode(value: object) -> bytes:
    """Return a value as JSON; equal values of equal order give the same bytes."""
    text = msgspec.json.encode(value, enc_hook=_write_component)
    return msgspec.json.encode(_put_back(msgspec.json.decode(text))) if _UNKNOWN in text else text


def decode(kind: type[T], text: bytes) -> T:
    """Return the value of the type `kind` from its JSON; raises ValueError for an invalid text."""
    try:
        return _decoder(kind).decode(text)  # type: ignore[no-any-return,arg-type]  # of this type
    except msgspec.ValidationError:
        return load(kind, msgspec.json.decode(text))


@cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_read_component)


def _write_component(value: object) -> dict[str, object]:
    if isinstance(value, Component):
        known = {name: one for name, one in value.document().items() if one is not None}
        return {**known, **(value.unknown_attributes or {})}
    raise TypeError(f"unsupported type in an item: {type(value).__name__}")


def _read_component(kind: type, value: Any) -> Component:
    if kind is not Component or not isinstance(value, dict):
        raise ValueError(f"not a component: {value!r}")
    return Component.read(value)


def _set_apart(kind: Any, value: Any) -> Any:
    """Return the attribute of an item with the attributes that its classes do not know in `unknown_attributes`."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    union = get_origin(kind) in {Union, UnionType}
    for member in get_args(kind) if union else (kind,):
        parts = get_args(member)
        if isinstance(value, list) and parts:
            return [_set_apart(parts[0], one) for one in value]
        if isinstance(value, dict) and parts:
            return {name: _set_apart(parts[-1], one) for name, one in value.items()}
        if isinstance(value, dict) and "unknown_attributes" in getattr(member, "__struct_fields__", ()):
            types = _types_of(member)
            known = {name: _set_apart(types[name], one) for name, one in value.items() if name in types}
            # A value without unknown attributes must equal one that was not stored yet.
            unknown = {name: value[name] for name in value.keys() - types.keys()}
            return known | ({"unknown_attributes": unknown} if unknown else {})
    return value


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _put_back(value: Any) -> Any:
    """Return JSON with the attributes in each `unknown_attributes` beside the attributes of their value."""
    if isinstance(value, list):
        return [_put_back(one) for one in value]
    if not isinstance(value, dict):
        return value
    known = {name: _put_back(one) for name, one in value.items() if name != "unknown_attributes"}
    return known | (value.get("unknown_attributes") or {})


def pack(value: object) -> Packed:
    """Return a value as compressed bytes; the same JSON gives the same bytes."""
    return _compressed(encode(value), PACKED_WITH)


def unpack(kind: type[T], packed: Value) -> T:
    """Return the value in compressed bytes; raises ValueError if a later version compressed them."""
    return decode(kind, _decompressed(packed))


def pack_text(text: str) -> Packed:
    """Return the body of an entry as compressed bytes; the same text gives the same bytes."""
    return _compressed(text.encode(), BODIES_PACKED_WITH)


def unpack_text(packed: Value) -> str:
    """Return the text in compressed bytes; raises ValueError if a later version compressed them."""
    return _decompressed(packed).decode()


def _compressed(content: bytes, number: int) -> Packed:
    packer = zlib.compressobj(level=9, zdict=_dictionary(number))
    return Packed(bytes((number,)) + packer.compress(content) + packer.flush())


def _decompressed(packed: Value) -> bytes:
    if not isinstance(packed, Packed) or not packed:
        raise ValueError("the value is not packed bytes")
    number, content = packed[0], packed[1:]
    if number not in {PACKED_WITH, BODIES_PACKED_WITH}:
        raise ValueError(f"the item needs dictionary {number} of a later version")
    unpacker = zlib.decompressobj(zdict=_dictionary(number))
    return unpacker.decompress(content) + unpacker.flush()


@cache
def _dictionary(number: int) -> bytes:
    return Path(__file__).with_name(f"packing-{number}.txt").read_bytes()
