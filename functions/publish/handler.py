"""Lambda handler: publishes new entries from the table stream to the bus."""

from __future__ import annotations

from typing import Any

from faultbridge.composition.function import from_environment
from faultbridge.entrypoints.publish import publish


def handler(event: dict[str, Any], _context: object) -> None:
    """Publish a batch of new entries."""
    publish(event, from_environment())
