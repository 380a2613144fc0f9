"""Stores which records were sent for each node.

An unchanged record is sent again only after 30 minutes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

REPEAT_SECONDS = 1800.0
"""An unchanged record is sent again after this time, so that a rejected or lost record is replaced."""


@dataclass(slots=True)
class SentStates:
    """The digest and the time of the last stored record for each node and record source."""

    monotonic: Callable[[], float]
    _sent: dict[tuple[str, str], tuple[bytes, float]] = field(default_factory=dict)

    def is_due(self, node: str, source: str, body: bytes) -> bool:
        """Return whether a record is new or changed, or was last stored at least 30 minutes ago."""
        digest, at = self._sent.get((node, source), (b"", 0.0))
        return digest != _digest(body) or self.monotonic() - at >= REPEAT_SECONDS

    def sent(self, node: str, source: str, body: bytes) -> None:
        """Store the digest and the time of a record that was stored for sending."""
        self._sent[node, source] = (_digest(body), self.monotonic())

    def keep_only(self, nodes: set[str]) -> None:
        """Delete the states of all nodes except `nodes`, because all other nodes no longer exist."""
        for key in [key for key in self._sent if key[0] not in nodes]:
            del self._sent[key]

    def forget(self, node: str) -> None:
        """Delete the states of one node, so that the next record of the node is due."""
        for key in [key for key in self._sent if key[0] == node]:
            del self._sent[key]


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
