"""What the provider has, beside what is registered."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.inventory import inventory


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Look once."""
    return inventory(event, application())
