"""Lambda handler: processes raw records from the queue into the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.ingest import ingest


def handler(event: object, _context: object) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Ingest a batch of SQS messages and return the ids of the messages to retry."""
    return ingest(event, from_environment())
