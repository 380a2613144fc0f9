"""A Lambda function behind an EventBridge rule: prints one line for each case that was closed.

It needs the package `faultbridge` and pydantic. Types and words that it does not know do not stop it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.events import CaseStatusChange, Event, read_envelope

FINAL = ("resolved", "expired")


def handler(event: Mapping[str, Any], _context: object) -> str | None:
    """Take one event as EventBridge delivers it."""
    text = closed(read_envelope(event))
    if text is not None:
        print(text)  # noqa: T201 - what a function prints is its log
    return text


def closed(event: Event) -> str | None:
    """Say what became of a case, or nothing for any other event."""
    match event:
        case CaseStatusChange(metadata=metadata, data=data) if data.to in FINAL:
            took = sum(data.phases.values()) // 60_000
            how = data.resolution.value if data.resolution else data.to.value
            return f"{metadata.cluster}/{metadata.node}: {data.cause.code} {how} after {took} min"
        case _:
            return None
