"""Enforces the size limits of DynamoDB in the fake table: 400 KB for an item, 4 MB for a transaction.

Source: the developer guide, "DynamoDB item sizes and formats" and "Amazon DynamoDB Transactions".
"""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.adapters.aws.dynamodb import BODY
from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage.codec import pack_text
from faultbridge.model.storage.writes import Item, Key, Packed, Value
from tests.sim.fakes.stored_values import StoredMapping

MAX_ITEM_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
BYTES_PER_CHARACTER = 4
"""The most bytes that UTF-8 needs for one character."""

LENGTH_OF_PART = 4
"""The number of characters that the bound adds for each mapping and for each part of a mapping."""

_SIZED = frozenset({str, Packed})


def check_sizes(items: Iterable[tuple[Key, Item | None, Item | None]]) -> None:
    """Raise `Misconfigured` if DynamoDB would refuse the writes because of their size.

    `items` has, for each changed item, the key, the item after the write, and the item before the write.
    """
    written = [(key, new) for key, new, _ in items if new is not None]
    bounds = [max_bytes(new) for _, new in written]
    for (key, new), bound in zip(written, bounds, strict=True):
        if bound > MAX_ITEM_BYTES and (size := item_bytes(new)) > MAX_ITEM_BYTES:
            raise Misconfigured(f"the item exceeds 400 KB: {key.pk} {key.sk} has {size} bytes")
    if sum(bounds) > MAX_TRANSACTION_BYTES and sum(item_bytes(new) for _, new in written) > MAX_TRANSACTION_BYTES:
        raise Misconfigured("the transaction exceeds 4 MB")


def max_bytes(item: Item) -> int:
    """Return an upper bound of an item's size, so that most items need no exact measurement.

    The bound counts four bytes for each character of the item's names and values, and some bytes for each mapping.
    DynamoDB's format never takes more.
    """
    return BYTES_PER_CHARACTER * (_length_of(item) if isinstance(item, StoredMapping) else _text_length(item))


def _text_length(mapping: Item) -> int:
    length = sum(map(len, mapping))
    for value in mapping.values():
        if type(value) in _SIZED:
            length += len(value)  # type: ignore[arg-type]  # a text or bytes
        elif isinstance(value, StoredMapping):
            length += _length_of(value)
        else:
            length += LENGTH_OF_PART if value is None else len(repr(value))
    return length


def _length_of(mapping: StoredMapping) -> int:
    if mapping.length is None:
        mapping.length = LENGTH_OF_PART * (1 + len(mapping)) + _text_length(mapping)
    return mapping.length


def item_bytes(item: Item) -> int:
    """Return the size of an item in bytes, as DynamoDB counts it; the adapter compresses the body of an entry."""
    return sum(
        len(name.encode()) + _value_bytes(pack_text(value) if name == BODY and isinstance(value, str) else value)
        for name, value in item.items()
    )


def _value_bytes(value: Value) -> int:
    match value:
        case bool() | None:
            return 1
        case int():
            return (len(str(abs(value))) + 1) // 2 + 1 + (value < 0)
        case str():
            return len(value.encode())
        case Packed():
            return len(value)
        case list():
            return 3 + sum(1 + _value_bytes(one) for one in value)
        case dict():
            return 3 + sum(1 + len(name.encode()) + _value_bytes(one) for name, one in value.items())
