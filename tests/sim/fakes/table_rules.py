"""Table rules: evaluates the conditions and applies the writes of the fake table."""

from __future__ import annotations

from itertools import pairwise

from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage.writes import (
    Absent,
    AnyOf,
    Below,
    Check,
    Condition,
    Delete,
    Equals,
    Item,
    Packed,
    Path,
    Present,
    Put,
    Update,
    Value,
    Write,
)
from tests.sim.fakes.stored_values import stored_item


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Return whether a condition holds for an item; `item` is None if the key has no item."""
    match condition:
        case None:
            return True
        case Absent():
            return item is None
        case Present():
            return item is not None
        case AnyOf(conditions):
            if not conditions:
                raise ValueError("AnyOf without conditions: at least one is required")
            return any(holds(part, item) for part in conditions)
        case Equals(attribute, value):
            return item is not None and attribute in item and same(item[attribute], value)
        case Below(attribute, value):
            return item is not None and attribute in item and below(item[attribute], value)


def same(left: Value, right: Value) -> bool:
    """Return whether two values are equal in DynamoDB, where True and 1 differ because their types differ."""
    return (type(left) is type(right) or _kind(left) == _kind(right)) and left == right


def below(left: Value, right: str | int) -> bool:
    """Return whether `left` is less than `right` in DynamoDB; False if the values have different types."""
    if isinstance(left, str) and isinstance(right, str):
        return left.encode() < right.encode()
    return _kind(left) == _kind(right) == "int" and left < right  # type: ignore[operator] # both are numbers


def applied(write: Write, item: Item | None) -> Item | None:
    """Return the item after a write, or None if there is no item after the write.

    `item` is the item before the write, or None.
    """
    match write:
        case Put(new):
            return stored_item(new)
        case Delete():
            return None
        case Check():
            return item
        case Update():
            return _updated(write, item)


def _kind(value: Value) -> str:
    kinds = (bool, int, str, Packed, list, dict)
    return next((kind.__name__ for kind in kinds if isinstance(value, kind)), "null")


def _updated(update: Update, item: Item | None) -> Item:
    paths = sorted([*update.set, *update.remove, *((name,) for name in update.add)])
    if not paths or any(later[: len(earlier)] == earlier for earlier, later in pairwise(paths)):
        raise ValueError(f"invalid update: {paths}; it needs at least one path, and no path within another")
    new: Item = dict(item) if item is not None else {"pk": update.key.pk, "sk": update.key.sk}
    for path, value in update.set.items():
        _parent(new, path)[path[-1]] = value
    for path in update.remove:
        _parent(new, path).pop(path[-1], None)
    for name, number in update.add.items():
        old = new.get(name, 0)
        if type(old) is not int:
            raise Misconfigured(f"the attribute is not a number: {name}")
        new[name] = old + number
    return stored_item(new)


def _parent(item: Item, path: Path) -> Item:
    """Return a copy of the mapping that contains the last part of a path in an item.

    Each mapping on the path is replaced in `item` by its copy, so that the stored mappings stay unchanged.
    """
    parent = item
    for name in path[:-1]:
        child = parent.get(name)
        if not isinstance(child, dict):
            raise Misconfigured(f"the path has no parent mapping: {'.'.join(path)}")
        parent[name] = parent = dict(child)
    return parent
