"""Lambda handler: forwards webhooks and CloudWatch Logs to the queue of raw records."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.http_event import HttpResponse
from faultbridge.serve.entrypoints.intake import intake


def handler(event: object, _context: object) -> HttpResponse | Mapping[str, str | None]:
    """Forward one webhook request or one batch of log events."""
    return intake(event, from_environment())
