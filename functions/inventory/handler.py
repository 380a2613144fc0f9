"""Lambda handler: synchronizes the registry with the instances of the provider."""

from __future__ import annotations

from msgspec import to_builtins

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.inventory import inventory


def handler(event: object, _context: object) -> object:
    """Synchronize the registry once and return the changes."""
    return to_builtins(inventory(event, from_environment()))
