"""Lambda handler: synchronizes the registry with the instances of the provider."""

from __future__ import annotations

from typing import Any

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.inventory import inventory


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Synchronize the registry once and return the changes."""
    return inventory(event, from_environment())
