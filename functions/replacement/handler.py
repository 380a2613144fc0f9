"""Lambda handler: runs one step of a repair, called by the state machine."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.replacement import replacement


def handler(event: dict[str, Any], _context: object) -> dict[str, str]:
    """Run the step that the event names and return its outcome."""
    return replacement(event, from_environment())
