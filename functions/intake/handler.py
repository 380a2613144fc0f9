"""Webhooks and CloudWatch Logs onto the queue of raw records."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.intake import intake


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Take one post or one batch of logs."""
    return intake(event, application())
