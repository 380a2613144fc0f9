"""Conditions, updates and key ranges as DynamoDB expressions; pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal

from faultbridge.adapters.dynamodb_values import Typed, to_typed, to_typed_item
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

# Nothing sorts after it, and no key of ours holds it.
LAST = "\U0010ffff"


class Placeholders:
    """Names and values that an expression speaks of by `#0` and `:0`, so that no name is a reserved word."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Typed] = {}

    def path(self, path: Iterable[str]) -> str:
        """Name an attribute, or one below a mapping."""
        return ".".join(self._names.setdefault(part, f"#{len(self._names)}") for part in path)

    def value(self, value: Value) -> str:
        """Name a value."""
        name = f":{len(self._values)}"
        self._values[name] = to_typed(value)
        return name

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that go with the expressions; DynamoDB refuses empty ones."""
        arguments: dict[str, Any] = {}
        if self._names:
            arguments["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            arguments["ExpressionAttributeValues"] = self._values
        return arguments


def condition_expression(condition: Condition, placeholders: Placeholders) -> str:
    """Render a condition; ValueError for a choice of nothing, which DynamoDB cannot say."""
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
                raise ValueError("no condition to choose from")
            # Choices within choices need no parentheses, and DynamoDB refuses those that are not needed.
            return " OR ".join(condition_expression(part, placeholders) for part in conditions)


def update_expression(update: Update, placeholders: Placeholders) -> str:
    """Render the changes of an update; ValueError when there are none or two of them touch each other."""
    _refuse_overlap([*update.set, *update.remove, *((name,) for name in update.add)])
    path, value = placeholders.path, placeholders.value
    clauses = {
        "SET": [f"{path(where)} = {value(what)}" for where, what in update.set.items()],
        "REMOVE": [path(where) for where in update.remove],
        "ADD": [f"{path((name,))} {value(number)}" for name, number in update.add.items()],
    }
    return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses.items() if parts)


def write_arguments(write: Write) -> dict[str, Any]:
    """Return the arguments of `PutItem`, `DeleteItem`, `UpdateItem` or a part of a transaction, without table."""
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
    """Return the name under which a transaction takes this write."""
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
    """Spell a key of the table."""
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def sort_key_bounds(prefix: str, after: str | None, upto: str | None) -> tuple[str, str] | None:
    """Return the first and the last sort key that may be read, or None when there is no limit.

    `after` is exclusive: the first key behind a text is the text and a NUL.
    """
    if not prefix and after is None and upto is None:
        return None
    first = max(prefix, "" if after is None else after + "\0")
    last = min(prefix + LAST, LAST if upto is None else upto)
    return first, last


def range_expression(pk: tuple[str, str], sk: str, bounds: tuple[str, str] | None, placeholders: Placeholders) -> str:
    """Render the key condition of a query over one partition (`pk` is name and value)."""
    partition = f"{placeholders.path((pk[0],))} = {placeholders.value(pk[1])}"
    if bounds is None:
        return partition
    first, last = bounds
    name = placeholders.path((sk,))
    if not first:  # DynamoDB knows no empty key
        return f"{partition} AND {name} <= {placeholders.value(last)}"
    return f"{partition} AND {name} BETWEEN {placeholders.value(first)} AND {placeholders.value(last)}"


def _refuse_overlap(paths: list[Path]) -> None:
    if not paths:
        raise ValueError("an update that changes nothing")
    ordered = sorted(paths)
    for earlier, later in pairwise(ordered):
        if later[: len(earlier)] == earlier:
            raise ValueError(f"an update touches both {'.'.join(earlier)} and {'.'.join(later)}")
