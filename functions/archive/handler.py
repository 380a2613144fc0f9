"""The round of each hour: anchors, and the seal of each day."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.archive import archive


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Do one round and say what was done."""
    return archive(event, application())
