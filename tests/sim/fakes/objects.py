"""Fakes of the object store and the archive: bucket, write-once vault, delivery stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from faultbridge.model.errors import Conflict
from faultbridge.model.storage.wire.archive_lines import ArchiveLine
from faultbridge.record.archive.write import ObjectSink
from faultbridge.record.ports.table import Clock, Table
from tests.sim.fakes.seam import Seam


class FakeObjects:
    """Implements `ObjectStore` (fake) in a dictionary.

    As in S3, a read returns the last completed write, and a write to an existing key replaces the object.
    """

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.stored: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        """Store an object, and replace any object with the same key."""
        with self.seam.around("objects", "put", key):
            self.stored[key] = bytes(body)

    def get(self, key: str) -> bytes | None:
        """Return an object's body; None if the key does not exist."""
        with self.seam.around("objects", "get", key):
            return self.stored.get(key)


class FakeArchive(FakeObjects):
    """Implements `Archive` (fake): an object store that can list its keys."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys with a prefix in sorted order."""
        with self.seam.around("objects", "list", prefix):
            yield from sorted(key for key in self.stored if key.startswith(prefix))


class FakeVault(FakeArchive):
    """Implements `Vault` (fake): a write-once archive, whose objects cannot be overwritten."""

    def put(self, key: str, body: bytes) -> None:
        """Store an object under a new key; an existing key raises `Conflict`."""
        with self.seam.around("vault", "put", key):
            if key in self.stored:
                raise Conflict(f"the object exists already: {key}")
            self.stored[key] = bytes(body)


class FakeDelivery:
    """Implements `ArchiveSink` (fake): delivers lines to the archive.

    A test can drop, duplicate or reorder lines with `misdeliver`.
    """

    def __init__(
        self,
        archive: FakeArchive,
        misdeliver: Callable[[Sequence[ArchiveLine]], Sequence[ArchiveLine]] | None = None,
        *,
        seam: Seam | None = None,
    ) -> None:
        self.seam = seam or Seam()
        self.misdeliver = misdeliver
        self._sink = ObjectSink(archive)

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Deliver the lines to the archive; if `misdeliver` is set, it changes the lines first."""
        with self.seam.around("sink", "put", len(lines)):
            self._sink.put(self.misdeliver(lines) if self.misdeliver else lines)


class FakeArchivePorts:
    """Fakes of the ports that the archive functions need, with a given table and clock."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.archive = FakeArchive()
        self.vault = FakeVault()
        self.sink = FakeDelivery(self.archive)

    def token_secret(self) -> bytes:
        """Return the secret that signs page tokens in tests."""
        return b"a secret of tests"
