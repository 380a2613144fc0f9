"""Lambda handler: forwards webhooks and CloudWatch Logs to the queue of raw records."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.intake import intake


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Forward one webhook request or one batch of log events."""
    return intake(event, from_environment())
