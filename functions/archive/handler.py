"""Lambda handler: anchors every cluster each hour and seals each finished day."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.archive import archive


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Anchor all clusters, seal the days that are due, and return the counts."""
    return archive(event, from_environment())
