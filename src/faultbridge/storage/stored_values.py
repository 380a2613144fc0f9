"""Stored values: reads a domain value from an item, also from one that an earlier release wrote.

An item has a schema version, and one function converts each version to the next one. A release reads every earlier
version and writes only the latest. A new version is written only one release after every reader supports it, so that
old and new code can run at the same time during a deployment. Exception before the first release: the state of a node
is written packed at once, also in version 1, so that an earlier commit cannot read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from faultbridge.errors import Misconfigured
from faultbridge.storage.codec import load, unpack
from faultbridge.storage.writes import Packed

T = TypeVar("T")
Step = Callable[[Mapping[str, Any]], dict[str, Any]]

LATEST = 1
"""The schema version of new items."""

STEPS: Mapping[int, Step] = {}
"""The function that converts each version to the next one; empty in the first release."""


def upcast(item: Mapping[str, Any], steps: Mapping[int, Step] = STEPS, latest: int = LATEST) -> Mapping[str, Any]:
    """Return an item in the latest schema version; raises Misconfigured for an item of a newer release."""
    version = int(item.get("schema", 1))
    if version > latest:
        raise Misconfigured(
            f"item written by a newer release: {item.get('pk')} has schema {version};"
            f" this release reads up to {latest}, upgrade it"
        )
    while version < latest:
        item = {**steps[version](item), "schema": version + 1}
        version += 1
    return item


def stored_value(kind: type[T], row: Mapping[str, Any], attribute: str | None = None) -> T:
    """Return the value in an attribute of an item, packed or not, or in the whole item.

    Raises Misconfigured, which names the item, if this release cannot read it.
    """
    current = upcast(row)
    try:
        found = current if attribute is None else current[attribute]
        return load(kind, unpack(found) if isinstance(found, Packed | str) else found)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OSError, EOFError, zlib.error) as error:
        place = f"{row.get('pk')} {row.get('sk')}"
        raise Misconfigured(
            f"item of another release: {kind.__name__} in {place} cannot be read ({type(error).__name__}: {error});"
            " use the release that the stack runs, or start with an empty stack"
        ) from error
