"""The round of each minute: timers, missed entries, waiting repairs."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.sweep import sweep


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Do one round and say what was done."""
    return sweep(event, application())
