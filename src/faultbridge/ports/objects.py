"""Objects by key: raw records, evidence, the archive, and the anchors under a retention lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from faultbridge.storage.wire.archive_lines import ArchiveLine


class ObjectStore(Protocol):
    """Raw records and evidence, stored under the hash of their content."""

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes; the key is a hash of the content, so a repeated call changes nothing."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes, or None when the key does not exist."""


class Archive(Protocol):
    """Archived objects that can be read back and listed by key prefix."""

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes, or None when the key does not exist."""

    def list(self, prefix: str) -> Iterator[str]:
        """Return every key with this prefix, in order."""


class Vault(Protocol):
    """Objects under a retention lock: the first version of a key cannot be changed or deleted."""

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes; raises Conflict when the key exists."""

    def get(self, key: str) -> bytes | None:
        """Return the first version of the key, or None when the key never existed."""

    def list(self, prefix: str) -> Iterator[str]:
        """Return every key with this prefix, in order."""


class ArchiveSink(Protocol):
    """Delivers lines to the archive with a delay and in any order; lines may be duplicated or lost."""

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Deliver the lines; raises Transient when some were not accepted."""
