"""Lambda handler: anchors every cluster each hour and seals each finished day."""

from __future__ import annotations

from msgspec import to_builtins

from faultbridge.serve.application import from_environment
from faultbridge.serve.entrypoints.archive import archive


def handler(_event: object, _context: object) -> object:
    """Anchor all clusters, seal the days that are due, and return the counts."""
    return to_builtins(archive(from_environment()))
