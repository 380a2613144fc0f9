"""Reads a domain value from a stored item, and refuses an item that another release wrote in another form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from faultbridge.errors import Misconfigured
from faultbridge.storage.codec import load
from faultbridge.storage.upcasts import upcast

T = TypeVar("T")


def stored_value(kind: type[T], row: Mapping[str, Any], attribute: str | None = None) -> T:
    """Return the value in an attribute of an item, or in the whole item.

    Raises Misconfigured, which names the item, if this release cannot read it.
    """
    current = upcast(row)
    try:
        return load(kind, current if attribute is None else current[attribute])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        place = f"{row.get('pk')} {row.get('sk')}"
        raise Misconfigured(
            f"item of another release: {kind.__name__} in {place} cannot be read ({type(error).__name__}: {error});"
            " use the release that the stack runs, or start with an empty stack"
        ) from error
