"""Raw records from the queue into the table."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.ingest import ingest


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Work a batch of SQS messages; what must be tried again is named in the answer."""
    return ingest(event, application())
