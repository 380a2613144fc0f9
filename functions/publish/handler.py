"""Lambda handler: sends new entries from the table stream to the bus and the archive."""

from __future__ import annotations

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.publish import publish


def handler(event: object, _context: object) -> None:
    """Publish and archive a batch of new entries."""
    publish(event, from_environment())
