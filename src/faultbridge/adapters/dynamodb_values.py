"""DynamoDB's typed JSON to our values and back; pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from faultbridge.storage.writes import Item, Value

Typed = dict[str, Any]
"""One value as DynamoDB spells it: `{"S": "text"}`, `{"N": "1"}`, ..."""


def to_typed(value: Value) -> Typed:
    """Spell a value as DynamoDB does; TypeError for one that would not come back as it went in (a float)."""
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": str(value)}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if isinstance(value, list):
        return {"L": [to_typed(part) for part in value]}
    if isinstance(value, dict):
        return {"M": {_name(name): to_typed(part) for name, part in value.items()}}
    raise TypeError(f"{type(value).__name__} cannot be kept in the table")


def from_typed(typed: Mapping[str, Any]) -> Value:
    """Read a value as DynamoDB spells it; ValueError for a type that we never write."""
    ((kind, value),) = typed.items()
    match kind:
        case "S":
            return str(value)
        case "N":
            return int(value)
        case "BOOL":
            return bool(value)
        case "NULL":
            return None
        case "L":
            return [from_typed(part) for part in value]
        case "M":
            return {name: from_typed(part) for name, part in value.items()}
        case _:
            raise ValueError(f"a value of type {kind} is none of ours")


def to_typed_item(item: Mapping[str, Value]) -> dict[str, Typed]:
    """Spell a whole item, as calls and stream records carry it."""
    return {_name(name): to_typed(value) for name, value in item.items()}


def from_typed_item(item: Mapping[str, Mapping[str, Any]]) -> Item:
    """Read a whole item, as answers and stream records carry it."""
    return {name: from_typed(value) for name, value in item.items()}


def to_token(last: Mapping[str, Any] | None) -> str | None:
    """Make the opaque token of a page out of the last key that was read."""
    if not last:
        return None
    plain = {name: typed["S"] for name, typed in last.items()}
    return base64.urlsafe_b64encode(json.dumps(plain, sort_keys=True).encode()).decode().rstrip("=")


def from_token(token: str) -> dict[str, Typed]:
    """Read the last key out of a page's token; ValueError when it is none."""
    try:
        plain = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return {str(name): {"S": str(value)} for name, value in plain.items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{token!r} is not the token of a page") from error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of an attribute")
    return name
