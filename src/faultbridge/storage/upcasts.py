"""Upcasts: how items of earlier releases are read today, one step a version, on plain mappings.

A reader knows every shape that was ever written; a writer writes only the latest. The shape rises one release after
every reader of the stack knows it, so that old and new code can run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.errors import Misconfigured

Step = Callable[[Mapping[str, Any]], dict[str, Any]]

LATEST = 1
"""The shape in which items are written."""

STEPS: Mapping[int, Step] = {}
"""From which version each step leads to the next; the first release has none."""


def upcast(item: Mapping[str, Any], steps: Mapping[int, Step] = STEPS, latest: int = LATEST) -> Mapping[str, Any]:
    """Bring an item to the latest shape; raises Misconfigured on one that a newer release wrote."""
    version = int(item.get("schema", 1))
    if version > latest:
        raise Misconfigured(
            f"{item.get('pk')} was written by a newer release (schema {version}, this one knows {latest})"
        )
    while version < latest:
        item = {**steps[version](item), "schema": version + 1}
        version += 1
    return item
