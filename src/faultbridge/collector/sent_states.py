"""Remembers what was sent of each node, so that a report without a change is not sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

REPEAT_SECONDS = 1800.0
"""An unchanged node is sent again after this time, so that a rejected or lost record is replaced."""


@dataclass(slots=True)
class SentStates:
    """The digest of the record last sent for each node and source of the cluster, and when it was sent."""

    monotonic: Callable[[], float]
    _sent: dict[tuple[str, str], tuple[bytes, float]] = field(default_factory=dict)

    def is_due(self, node: str, source: str, body: bytes) -> bool:
        """Return whether a record differs from the one sent before, or must be repeated."""
        digest, at = self._sent.get((node, source), (b"", 0.0))
        return digest != _digest(body) or self.monotonic() - at >= REPEAT_SECONDS

    def sent(self, node: str, source: str, body: bytes) -> None:
        """Remember a record that was stored for sending."""
        self._sent[node, source] = (_digest(body), self.monotonic())

    def keep_only(self, nodes: set[str]) -> None:
        """Forget the nodes that no longer exist."""
        for key in [key for key in self._sent if key[0] not in nodes]:
            del self._sent[key]

    def forget(self, node: str) -> None:
        """Forget what was sent of one node, so that its next record is sent."""
        for key in [key for key in self._sent if key[0] == node]:
            del self._sent[key]


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
