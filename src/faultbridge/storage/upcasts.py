"""Upcasts: convert items of earlier releases to the current schema version, one function per version.

A release reads every earlier version and writes only the latest. A new version is written only one release after every
reader supports it, so that old and new code can run at the same time during a deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.errors import Misconfigured

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
