"""Lambda handler: runs due timers and missed work every minute, and confirms canary events."""

from __future__ import annotations

from msgspec import to_builtins

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.sweep import sweep


def handler(event: object, _context: object) -> object:
    """Run one sweep and return its counts."""
    return to_builtins(sweep(event, from_environment()))
