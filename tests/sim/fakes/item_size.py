"""Enforces the size limits of DynamoDB in the fake table: 400 KB for an item, 4 MB for a transaction.

Source: the developer guide, "DynamoDB item sizes and formats" and "Amazon DynamoDB Transactions".
"""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.adapters.aws.dynamodb import BODY
from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage.codec import pack_text
from faultbridge.model.storage.writes import Item, Key, Packed, Value

MAX_ITEM_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
BYTES_PER_CHARACTER = 4
"""The most bytes that UTF-8 needs for one character."""


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

    UTF-8 has at most four bytes for each character. DynamoDB's format of a value never takes more than its Python text.
    """
    return BYTES_PER_CHARACTER * len(repr(item))


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
