"""The archive in memory: objects, a vault that keeps what came first, a delivery stream that keeps no order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from faultbridge.archive.write import ObjectSink
from faultbridge.errors import Conflict
from faultbridge.ports import Clock, Table
from faultbridge.simulation.fakes.objects import FakeObjects
from faultbridge.simulation.fakes.seams import Seam
from faultbridge.storage.wire.archive_lines import ArchiveLine


class FakeArchive(FakeObjects):
    """An Archive (fake)."""

    def list(self, prefix: str) -> Iterator[str]:
        """List keys, in order."""
        with self.seam.around("objects", "list", prefix):
            yield from sorted(key for key in self.kept if key.startswith(prefix))


class FakeVault(FakeArchive):
    """A Vault (fake)."""

    def put(self, key: str, body: bytes) -> None:
        """Take it, once."""
        with self.seam.around("vault", "put", key):
            if key in self.kept:
                raise Conflict(f"{key} is kept already")
            self.kept[key] = bytes(body)


class FakeDelivery:
    """An ArchiveSink (fake) that does to each batch whatever `misdeliver` says, and tells nobody."""

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
        """Deliver some of it."""
        with self.seam.around("sink", "put", len(lines)):
            self._sink.put(self.misdeliver(lines) if self.misdeliver else lines)


class FakeArchivePorts:
    """Everything that keeping the record takes (fake), beside a table and a clock."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self.table = table
        self.clock = clock
        self.archive = FakeArchive()
        self.vault = FakeVault()
        self.sink = FakeDelivery(self.archive)

    def token_secret(self) -> bytes:
        """Tell the secret."""
        return b"a secret of tests"
