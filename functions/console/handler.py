"""Lambda handler: serves the read-only pages of the console."""

from __future__ import annotations

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.console import console
from faultbridge.serve.entrypoints.http_event import HttpResponse


def handler(event: object, _context: object) -> HttpResponse:
    """Serve one request for a page."""
    return console(event, from_environment())
