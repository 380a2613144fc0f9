"""Doorbells from the table's stream: rollup, isolation and dispatch."""

from __future__ import annotations

from typing import Any

from faultbridge.bootstrap import application
from faultbridge.entrypoints.react import react


def handler(event: dict[str, Any], _context: object) -> None:
    """Answer a batch of new entries."""
    react(event, application())
