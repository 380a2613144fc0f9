"""Upcasters: an older event as plain JSON, turned into the next version's shape, one step at a time.

Stored bodies are never rewritten; a reader upcasts what it reads. A step takes a `detail` of the version in its key
and returns the `detail` of the version after it, `metadata.schema_version` included. It decides nothing: what the
older version did not say stays null or absent. Optional fields and new words need no step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Detail = dict[str, Any]
Step = Callable[[Detail], Detail]

# (event type, version that the step takes) -> step. Version 1.0 is the first, so there is none yet.
STEPS: Mapping[tuple[str, str], Step] = {}


def upcast(detail: Detail, steps: Mapping[tuple[str, str], Step] = STEPS) -> Detail:
    """Bring a detail up to the newest version that steps lead to; raises ValueError for a step that stands still."""
    while step := steps.get(_version_of(detail)):
        before = _version_of(detail)
        detail = step(detail)
        if _order(_version_of(detail)[1]) <= _order(before[1]):
            raise ValueError(f"the upcaster of {before[0]} {before[1]} does not lead to a later version")
    return detail


def _version_of(detail: Detail) -> tuple[str, str]:
    metadata = detail.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return str(found.get("event_type")), str(found.get("schema_version"))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
