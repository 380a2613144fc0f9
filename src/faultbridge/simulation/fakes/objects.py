"""A bucket in memory."""

from __future__ import annotations

from faultbridge.simulation.fakes.seams import Seam


class FakeObjects:
    """An ObjectStore (fake)."""

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.kept: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        """Take it."""
        with self.seam.around("objects", "put", key):
            self.kept[key] = bytes(body)

    def get(self, key: str) -> bytes | None:
        """Read it."""
        with self.seam.around("objects", "get", key):
            return self.kept.get(key)
