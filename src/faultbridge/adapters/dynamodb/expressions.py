"""Convert conditions, updates and key ranges to DynamoDB expressions, without I/O."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal

from faultbridge.adapters.dynamodb.values import Typed, to_typed, to_typed_item
from faultbridge.storage.writes import (
    Absent,
    AnyOf,
    Below,
    Check,
    Condition,
    Delete,
    Equals,
    Key,
    Path,
    Present,
    Put,
    Update,
    Value,
    Write,
)

# Sorts after every key; no key contains it.
LAST = "\U0010ffff"


class Placeholders:
    """Placeholders, such as `#0` and `:0`, for attribute names and values in DynamoDB expressions.

    With placeholders, reserved words of DynamoDB can be attribute names.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Typed] = {}

    def path(self, path: Iterable[str]) -> str:
        """Return the path to an attribute, or to a value inside a map, with a placeholder for each name."""
        return ".".join(self._names.setdefault(part, f"#{len(self._names)}") for part in path)

    def value(self, value: Value) -> str:
        """Add a value, and return its placeholder."""
        name = f":{len(self._values)}"
        self._values[name] = to_typed(value)
        return name

    def arguments(self) -> dict[str, Any]:
        """Return the call arguments that define the placeholders.

        An empty argument is left out, because DynamoDB rejects it.
        """
        arguments: dict[str, Any] = {}
        if self._names:
            arguments["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            arguments["ExpressionAttributeValues"] = self._values
        return arguments


def condition_expression(condition: Condition, placeholders: Placeholders) -> str:
    """Return a condition as a DynamoDB expression; raises ValueError for an empty `AnyOf`."""
    match condition:
        case Absent():
            return f"attribute_not_exists({placeholders.path(('pk',))})"
        case Present():
            return f"attribute_exists({placeholders.path(('pk',))})"
        case Equals(attribute, value):
            return f"{placeholders.path((attribute,))} = {placeholders.value(value)}"
        case Below(attribute, value):
            return f"{placeholders.path((attribute,))} < {placeholders.value(value)}"
        case AnyOf(conditions):
            if not conditions:
                raise ValueError("AnyOf has no condition; at least 1 is needed")
            # Nested OR needs no parentheses, and DynamoDB rejects redundant ones.
            return " OR ".join(condition_expression(part, placeholders) for part in conditions)


def update_expression(update: Update, placeholders: Placeholders) -> str:
    """Return the changes of an update as a DynamoDB expression.

    Raises ValueError if there is no change, or if two changes overlap.
    """
    _check_overlap([*update.set, *update.remove, *((name,) for name in update.add)])
    path, value = placeholders.path, placeholders.value
    clauses = {
        "SET": [f"{path(where)} = {value(what)}" for where, what in update.set.items()],
        "REMOVE": [path(where) for where in update.remove],
        "ADD": [f"{path((name,))} {value(number)}" for name, number in update.add.items()],
    }
    return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses.items() if parts)


def write_arguments(write: Write) -> dict[str, Any]:
    """Return the DynamoDB arguments of a write, without the table name.

    The arguments fit `PutItem`, `DeleteItem`, `UpdateItem` and the parts of a transaction.
    """
    placeholders = Placeholders()
    arguments: dict[str, Any] = {}
    match write:
        case Put(item):
            arguments["Item"] = to_typed_item(item)
        case Update(key):
            arguments["Key"] = key_of(key)
            arguments["UpdateExpression"] = update_expression(write, placeholders)
        case Delete(key) | Check(key):
            arguments["Key"] = key_of(key)
    if write.when is not None:
        arguments["ConditionExpression"] = condition_expression(write.when, placeholders)
    return arguments | placeholders.arguments()


TransactionPart = Literal["Put", "Delete", "Update", "ConditionCheck"]


def transaction_part(write: Write) -> TransactionPart:
    """Return the field of `TransactWriteItems` for this kind of write, such as `Put` or `ConditionCheck`."""
    match write:
        case Put():
            return "Put"
        case Delete():
            return "Delete"
        case Update():
            return "Update"
        case Check():
            return "ConditionCheck"


def key_of(key: Key) -> dict[str, Typed]:
    """Return the key of a table item as DynamoDB's typed JSON."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def sort_key_bounds(prefix: str, after: str | None, up_to: str | None) -> tuple[str, str] | None:
    """Return the first and the last sort key of a range, or None if the range has no limit.

    Keys in the range start with `prefix`, are greater than `after`, and are at most `up_to`. DynamoDB includes both
    ends of a range, so the range starts at `after` plus a NUL character. If no key can be in the range, the first key
    is greater than the last key.
    """
    if not prefix and after is None and up_to is None:
        return None
    first = max(prefix, "" if after is None else after + "\0")
    last = min(prefix + LAST, LAST if up_to is None else up_to)
    return first, last


def range_expression(pk: tuple[str, str], sk: str, bounds: tuple[str, str] | None, placeholders: Placeholders) -> str:
    """Return the key condition of a query over one partition.

    `pk` is the name and the value of the partition key. `sk` is the name of the sort key. `bounds` are the first and
    the last sort key, both inclusive; None selects the whole partition.
    """
    partition = f"{placeholders.path((pk[0],))} = {placeholders.value(pk[1])}"
    if bounds is None:
        return partition
    first, last = bounds
    name = placeholders.path((sk,))
    if not first:  # DynamoDB allows no empty key
        return f"{partition} AND {name} <= {placeholders.value(last)}"
    return f"{partition} AND {name} BETWEEN {placeholders.value(first)} AND {placeholders.value(last)}"


def _check_overlap(paths: list[Path]) -> None:
    if not paths:
        raise ValueError("the update has no change; at least 1 is needed")
    ordered = sorted(paths)
    for earlier, later in pairwise(ordered):
        if later[: len(earlier)] == earlier:
            raise ValueError(f"the update changes overlapping paths: {'.'.join(earlier)} and {'.'.join(later)}")
