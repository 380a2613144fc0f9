"""Lambda handler: runs due timers and missed work every minute, and confirms canary events."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.entrypoints.sweep import sweep
from faultbridge.serve.wiring.function import from_environment


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Run one sweep and return its counts."""
    return sweep(event, from_environment())
