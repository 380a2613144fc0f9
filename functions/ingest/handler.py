"""Lambda handler: processes raw records from the queue into the table."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.ingest import ingest


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Ingest a batch of SQS messages and return the ids of the messages to retry."""
    return ingest(event, from_environment())
