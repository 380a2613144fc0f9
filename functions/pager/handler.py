"""Events that want a person to SNS."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.pager import pager


def handler(event: dict[str, Any], _context: object) -> None:
    """Send the pages that one event asks for."""
    pager(event, application())
