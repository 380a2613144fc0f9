"""Lambda handler: serves the HTTP API for the recorded history."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.http_event import HttpResponse
from faultbridge.serve.entrypoints.timeline import timeline


def handler(event: dict[str, Any], context: object) -> HttpResponse:
    """Serve one HTTP request."""
    return timeline(event, context, from_environment())
