"""What the fake table's conditions and updates mean, written down apart from the adapter's expressions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.storage.writes import (
    Absent,
    AnyOf,
    Below,
    Check,
    Condition,
    Delete,
    Equals,
    Item,
    Path,
    Present,
    Put,
    Update,
    Value,
    Write,
)


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Tell whether a condition holds for what stands at a key."""
    match condition:
        case None:
            return True
        case Absent():
            return item is None
        case Present():
            return item is not None
        case AnyOf(conditions):
            if not conditions:
                raise ValueError("no condition to choose from")
            return any(holds(part, item) for part in conditions)
        case Equals(attribute, value):
            return item is not None and attribute in item and same(item[attribute], value)
        case Below(attribute, value):
            return item is not None and attribute in item and below(item[attribute], value)


def same(left: Value, right: Value) -> bool:
    """Compare as the table does: a value equals only a value of its own type (True is not 1)."""
    return _kind(left) == _kind(right) and left == right


def below(left: Value, right: str | int) -> bool:
    """Compare as the table does: values of two types are in no order."""
    if isinstance(left, str) and isinstance(right, str):
        return left.encode() < right.encode()
    return _kind(left) == _kind(right) == "int" and left < right  # type: ignore[operator] # both are numbers


def applied(write: Write, item: Item | None) -> Item | None:
    """Return what stands at the key after the write."""
    match write:
        case Put(new):
            return clone_item(new)
        case Delete():
            return None
        case Check():
            return item
        case Update():
            return _updated(write, item)


def clone(value: Any) -> Value:
    """Copy a value; TypeError for one that the table would not give back as it was."""
    kind = type(value)
    if kind in _PLAIN:
        return value  # type: ignore[no-any-return]  # one of the plain kinds
    if kind is dict:
        return {_name(name): one if type(one) in _PLAIN else clone(one) for name, one in value.items()}
    if kind is list:
        return [one if type(one) in _PLAIN else clone(one) for one in value]
    return _plain(value)


def _name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise TypeError(f"{name!r} cannot name anything in the table")


def read_again(value: Value) -> Value:
    """Copy a value that is kept already, so that whoever gets it may change it."""
    if type(value) is dict:
        return {name: one if type(one) in _PLAIN else read_again(one) for name, one in value.items()}
    if type(value) is list:
        return [one if type(one) in _PLAIN else read_again(one) for one in value]
    return value


_PLAIN = frozenset({str, int, bool, type(None)})


def _plain(value: Any) -> Value:
    """Bring a subclass (an enum) to the kind of value that the table keeps."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list | dict):
        return clone(list(value) if isinstance(value, list) else dict(value))
    raise TypeError(f"{value!r} cannot be kept in the table")


def clone_item(item: Item) -> Item:
    """Copy an item on its way into the table."""
    return {name: one if type(one) in _PLAIN else clone(one) for name, one in item.items()}


def read_item(item: Item) -> Item:
    """Copy an item on its way out of the table."""
    return {name: one if type(one) in _PLAIN else read_again(one) for name, one in item.items()}


def _kind(value: Value) -> str:
    kinds = (bool, int, str, list, dict)
    return next((kind.__name__ for kind in kinds if isinstance(value, kind)), "null")


def _updated(update: Update, item: Item | None) -> Item:
    paths = sorted([*update.set, *update.remove, *((name,) for name in update.add)])
    if not paths or any(later[: len(earlier)] == earlier for earlier, later in pairwise(paths)):
        raise ValueError("an update that changes nothing, or one thing twice")
    new: Item = clone_item(item) if item is not None else {"pk": update.key.pk, "sk": update.key.sk}
    for path, value in update.set.items():
        _parent(new, path)[path[-1]] = clone(value)
    for path in update.remove:
        _parent(new, path).pop(path[-1], None)
    for name, number in update.add.items():
        old = new.get(name, 0)
        if type(old) is not int:
            raise Misconfigured(f"{name} is no number to add to")
        new[name] = old + number
    return new


def _parent(item: Item, path: Path) -> Item:
    place: Value = item
    for name in path[:-1]:
        place = place.get(name) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise Misconfigured(f"{'.'.join(path)} is below no mapping")
    return place
