"""One step of one repair, called by the state machine."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.replacement import replacement


def handler(event: dict[str, Any], _context: object) -> dict[str, str]:
    """Run the step that the event names."""
    return replacement(event, application())
