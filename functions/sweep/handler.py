"""Lambda handler: runs due timers and missed work every minute, and confirms canary events."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.sweep import sweep


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Run one sweep and return its counts."""
    return sweep(event, from_environment())
