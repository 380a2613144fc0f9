"""Convert between Python values and DynamoDB's typed JSON, without I/O."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.storage.writes import Item, Packed, Value

Typed = dict[str, Any]
"""One value as typed JSON: `{"S": "text"}`, `{"N": "1"}`, ..."""


def to_typed(value: Value) -> Typed:
    """Return a Python value as DynamoDB's typed JSON; raises TypeError for an unsupported type.

    A float is not supported, because it cannot always be read back exactly.
    """
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str | Packed):
        return {"S": str(value)} if isinstance(value, str) else {"B": bytes(value)}
    if isinstance(value, int):
        return {"N": str(int(value))}
    if isinstance(value, list):
        return {"L": [to_typed(part) for part in value]}
    if isinstance(value, dict):
        return {"M": {_name(name): to_typed(part) for name, part in value.items()}}
    raise TypeError(
        f"type cannot be stored in the table: {type(value).__name__}; str, Packed, int, bool, None, list or dict"
    )


def from_typed(typed: Mapping[str, Any]) -> Value:
    """Return a Python value from DynamoDB's typed JSON.

    Raises ValueError for a type that `to_typed` never writes.
    """
    ((kind, value),) = typed.items()
    if kind in _SIMPLE:
        return _SIMPLE[kind](value)
    match kind:
        case "NULL":
            return None
        case "L":
            return [from_typed(part) for part in value]
        case "M":
            return {name: from_typed(part) for name, part in value.items()}
        case _:
            raise ValueError(f"unexpected DynamoDB type: {kind}; S, B, N, BOOL, NULL, L or M")


def _packed(value: bytes | str) -> Packed:
    """Return a binary attribute, which contains compressed data, as a `Packed` value.

    boto3 passes the attribute as bytes. Lambda passes it as base64 text in stream records.
    """
    return Packed(base64.b64decode(value) if isinstance(value, str) else value)


_SIMPLE: Mapping[str, Callable[[Any], Value]] = {"S": str, "B": _packed, "N": int, "BOOL": bool}
"""The types of values without parts, each with its conversion."""


def to_typed_item(item: Mapping[str, Value]) -> dict[str, Typed]:
    """Return a whole item as typed JSON, as DynamoDB calls and stream records contain it."""
    return {_name(name): to_typed(value) for name, value in item.items()}


def from_typed_item(item: Mapping[str, Mapping[str, Any]]) -> Item:
    """Return a whole item from typed JSON, as DynamoDB responses and stream records contain it."""
    return {name: from_typed(value) for name, value in item.items()}


def to_token(last: Mapping[str, Any] | None) -> str | None:
    """Return the pagination token for the last key of a page, or None if there is no further page."""
    if not last:
        return None
    plain = {name: typed["S"] for name, typed in last.items()}
    return base64.urlsafe_b64encode(json.dumps(plain, sort_keys=True).encode()).decode().rstrip("=")


def from_token(token: str) -> dict[str, Typed]:
    """Return the last key of the previous page from a pagination token.

    Raises ValueError if the token is invalid.
    """
    try:
        plain = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return {str(name): {"S": str(value)} for name, value in plain.items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(f"invalid page token: {token!r}; use the token of the previous page") from error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"attribute name is not a string: {name!r}")
    return name
