"""Lambda handler: serves the read-only pages of the console."""

from __future__ import annotations

from typing import Any

from faultbridge.composition.function import from_environment
from faultbridge.entrypoints.console import console


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Serve one request for a page."""
    return console(event, context, from_environment())
