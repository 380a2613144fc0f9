"""Remembers which records were sent for each node, so that an unchanged record is not sent again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

REPEAT_SECONDS = 1800.0
"""An unchanged record is sent again after this time, so that a rejected or lost record is replaced."""


@dataclass(slots=True)
class SentStates:
    """The digest of the record last stored for sending, and the time, for each node and record source."""

    monotonic: Callable[[], float]
    _sent: dict[tuple[str, str], tuple[bytes, float]] = field(default_factory=dict)

    def is_due(self, node: str, source: str, body: bytes) -> bool:
        """Return whether a record is new or changed, or was last sent at least 30 minutes ago."""
        digest, at = self._sent.get((node, source), (b"", 0.0))
        return digest != _digest(body) or self.monotonic() - at >= REPEAT_SECONDS

    def sent(self, node: str, source: str, body: bytes) -> None:
        """Remember a record that was stored for sending, so that an equal record is not due."""
        self._sent[node, source] = (_digest(body), self.monotonic())

    def keep_only(self, nodes: set[str]) -> None:
        """Forget all nodes except `nodes`, because the others no longer exist."""
        for key in [key for key in self._sent if key[0] not in nodes]:
            del self._sent[key]

    def forget(self, node: str) -> None:
        """Forget the records of one node, so that its next record is sent."""
        for key in [key for key in self._sent if key[0] == node]:
            del self._sent[key]


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
