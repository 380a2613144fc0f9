"""Lambda handler: updates incidents and statuses, isolates nodes and starts repairs after new entries."""

from __future__ import annotations

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.react import react


def handler(event: object, _context: object) -> None:
    """Process the nodes and clusters of a batch of new entries."""
    react(event, from_environment())
