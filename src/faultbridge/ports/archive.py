"""What is kept for longer than the table keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from faultbridge.ports.keeping import Clock, Table
from faultbridge.storage.wire.archive_lines import ArchiveLine


class Archive(Protocol):
    """Objects by key; any of them may be read back and listed."""

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes."""
        ...

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None where nothing is kept."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """List every key that begins so, in order."""
        ...


class Vault(Protocol):
    """Objects that nobody can change or delete for as long as they are to be kept: what came first stands."""

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; raises Conflict where something is kept already."""
        ...

    def get(self, key: str) -> bytes | None:
        """Read what was kept first under the key, or None."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """List every key that begins so, in order."""
        ...


class ArchiveSink(Protocol):
    """Takes lines on their way to the archive, soon, in any order, at least once; it may lose some without a word."""

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Hand the lines over; raises Transient when some were not taken."""
        ...


class ArchivePorts(Protocol):
    """Everything that keeping the record for years takes."""

    @property
    def clock(self) -> Clock:
        """Tell the time."""
        ...

    @property
    def table(self) -> Table:
        """Reach the one table."""
        ...

    @property
    def archive(self) -> Archive:
        """Reach the archive."""
        ...

    @property
    def vault(self) -> Vault:
        """Reach the anchors."""
        ...

    @property
    def sink(self) -> ArchiveSink:
        """Reach what carries lines to the archive."""
        ...

    @property
    def token_secret(self) -> Callable[[], bytes]:
        """Reach the secret that page tokens are signed with."""
        ...
