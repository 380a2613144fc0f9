"""Stored values of the fake table: read-only mappings and lists, which readers can share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from faultbridge.model.storage.writes import Item, Packed, ReadItem, Value

_PLAIN = frozenset({str, Packed, int, bool, type(None)})
"""The types of stored values that contain no other values."""


_NAME = frozenset({str})


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("a stored value cannot be changed; copy it first")


class StoredMapping(ReadItem):
    """A read-only mapping in the fake table, so that readers can share it without a copy.

    `projections` has the parts of an item that indexes contain, by the name of the index, as far as they were read.
    `parsed` is the body of an entry, once it was parsed.
    """

    projections: Mapping[str, StoredMapping] = MappingProxyType({})
    parsed: dict[str, Any] | None = None

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _: object) -> StoredMapping:
        return self  # copies of a system share what never changes


class StoredList(list[Value]):
    """A read-only list in the fake table, so that readers can share it without a copy."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, _: object) -> StoredList:
        return self


_STORED = _PLAIN | {StoredMapping, StoredList}


def body_of(item: Item) -> dict[str, Any]:
    """Return the parsed body of an entry; readers share that of a stored item, and do not change it."""
    if isinstance(item, StoredMapping) and item.parsed is not None:
        return item.parsed
    found: dict[str, Any] = json.loads(str(item["body"]))
    if isinstance(item, StoredMapping):
        item.parsed = found
    return found


def stored_item(item: Item) -> StoredMapping:
    """Return a read-only copy of an item for storage."""
    return StoredMapping({name: one if type(one) in _STORED else stored(one) for name, one in item.items()})


def stored(value: Any) -> Value:
    """Return a read-only form of a value for storage.

    A value of a type that the table cannot store, such as a float, raises `TypeError`.
    """
    kind = type(value)
    if kind in _STORED:
        return value  # type: ignore[no-any-return]  # one of the stored kinds
    if kind is dict:
        if not _NAME.issuperset(map(type, value)):
            value = {_name(name): one for name, one in value.items()}
        if not _STORED.issuperset(map(type, value.values())):
            value = {name: one if type(one) in _STORED else stored(one) for name, one in value.items()}
        return StoredMapping(value)
    if kind is list:
        return StoredList([one if type(one) in _STORED else stored(one) for one in value])
    return _plain(value)


def _name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"invalid attribute name: {name!r}; it must be a string")


def _plain(value: Any) -> Value:
    """Convert a value of a subclass of str, int, list or dict, such as an enum, to the plain stored type.

    Any other value raises `TypeError`.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list | dict):
        return stored(list(value) if isinstance(value, list) else dict(value))
    raise TypeError(
        f"invalid attribute value: {value!r};"
        " allowed are text, packed values, integers, booleans, None, lists and mappings"
    )
