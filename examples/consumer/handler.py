"""A Lambda function behind an EventBridge rule: prints one line for each closed case.

It needs the packages `faultbridge` and pydantic. It ignores unknown event types and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.model.events import CaseStatusChange, Event, read_envelope

FINAL = ("resolved", "expired")


def handler(event: Mapping[str, Any], _context: object) -> str | None:
    """Handle one event as EventBridge delivers it."""
    text = summary(read_envelope(event))
    if text is not None:
        print(text)  # noqa: T201 - Lambda writes printed text to the log
    return text


def summary(event: Event) -> str | None:
    """Return a line about a closed case, or None for any other event."""
    match event:
        case CaseStatusChange(metadata=metadata, data=data) if data.to in FINAL:
            minutes = sum(data.phases.values()) // 60_000
            resolution = data.resolution.value if data.resolution else data.to.value
            return f"{metadata.cluster}/{metadata.node}: {data.cause.code} {resolution} after {minutes} min"
        case _:
            return None
