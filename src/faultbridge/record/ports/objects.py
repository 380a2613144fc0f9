"""Ports that store objects by key: raw records, evidence, the archive and locked anchors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from faultbridge.model.storage.wire.archive_lines import ArchiveLine


class ObjectStore(Protocol):
    """Stores raw records and evidence under keys that contain a hash of the content."""

    def put(self, key: str, body: bytes) -> None:
        """Store bytes under a key that contains their hash, so a repeated call changes nothing."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key, or None if the key does not exist.

        Raises Rejected `too_large` if the object is larger than the limit of the store.
        """


class Archive(Protocol):
    """Stores archived objects that can be read and listed by key prefix."""

    def put(self, key: str, body: bytes) -> None:
        """Store bytes under a key of the archive."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes under a key of the archive, or None if the key does not exist."""

    def list(self, prefix: str) -> Iterator[str]:
        """Return every key of the archive with this prefix, sorted."""


class Vault(Protocol):
    """Stores objects under a retention lock: the first version of a key cannot be changed or deleted."""

    def put(self, key: str, body: bytes) -> None:
        """Store bytes under a new key of the vault; an existing key raises Conflict."""

    def get(self, key: str) -> bytes | None:
        """Return the first version of the bytes under a key, or None if the key never existed."""

    def list(self, prefix: str) -> Iterator[str]:
        """Return every key of the vault with this prefix, sorted."""


class ArchiveSink(Protocol):
    """Delivers timeline entries to the archive, one line each, with a delay and in any order.

    Lines may be duplicated or lost.
    """

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Deliver lines to the archive; raises Transient if some of them were not accepted."""
