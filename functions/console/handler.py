"""Lambda handler: serves the read-only pages of the console."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.console import console


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Serve one request for a page."""
    return console(event, context, from_environment())
