"""A stack in memory with an archive and a vault, for tests that anchor and seal days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from faultbridge.decide import entry_builder
from faultbridge.model.entries import seal
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.archive_lines import ArchiveLine
from faultbridge.model.storage.writes import Delete, Key, Put
from faultbridge.model.values import replace
from faultbridge.record.archive.anchor import Anchor, RecordAnchor
from faultbridge.record.archive.seal import ArchiveSchedule, Seal, SealResult
from faultbridge.record.archive.verification import VerifyArchive, anchored_hashes
from faultbridge.record.archive.write import WriteArchive
from faultbridge.record.publish import Publish
from faultbridge.record.verify import Verified, Verify
from tests.ingest.world import LedgerFixture
from tests.sim.fakes import FakeBus
from tests.sim.fakes.objects import FakeArchive, FakeDelivery, FakeVault

N1 = NodeKey("train-a", "n-1")
KEEP = timedelta(days=30)
Misdelivery = Callable[[Sequence[ArchiveLine]], Sequence[ArchiveLine]]


class ArchiveWorld(LedgerFixture):
    """A LedgerFixture with an archive, a vault and the hourly schedule."""

    def __init__(self, *, misdelivery: Misdelivery | None = None, keep: timedelta | None = KEEP, **others: Any) -> None:
        super().__init__(**others)
        self.archive, self.vault = FakeArchive(), FakeVault()
        self.sink = FakeDelivery(self.archive, misdelivery)
        self.anchor = Anchor(self.table, self.vault, self.clock, self.stack)
        self.seal = Seal(self.table, self.archive, self.vault, self.clock, self.stack, keep)
        self.archive_schedule = ArchiveSchedule(
            self.table, self.clock, self.anchor, RecordAnchor(self.table, self.clock, self.stack), self.seal
        )
        self._published = 0

    def publish(self) -> None:
        """Publish and archive what was recorded since the last call, in two batches."""
        new = [
            record.new
            for record in self.table.stream[self._published :]
            if record.event == "INSERT" and record.new and str(record.new["sk"]).startswith("ENTRY#")
        ]
        self._published = len(self.table.stream)
        Publish(self.table, FakeBus(), self.stack.id).publish(new)
        write = WriteArchive(self.sink)
        for batch in (new[: len(new) // 2], new[len(new) // 2 :]):
            write.write(batch)

    def record_history(self, nodes: int = 2, notes: int = 4) -> None:
        """Register nodes, record a note on each every minute, and publish everything."""
        registered = [self.register_node(f"n-{number}") for number in range(1, nodes + 1)]
        for note in range(notes):
            for key in registered:
                self.pass_time(minutes=1)
                self.note(key, f"note {note}")
        self.rollup.update("train-a")
        self.publish()

    def seal_day(self) -> SealResult:
        """Advance the clock by a day and seal the day before."""
        day = self.clock.now().date().isoformat()
        self.pass_time(days=1)
        return self.seal(self.config, day)

    def verify(self, *, anchor: bool = False, node: str | None = None) -> Verified:
        """Verify the streams in the table, with the anchors if wanted."""
        anchored = anchored_hashes(self.vault, "train-a") if anchor else None
        return Verify(self.table, self.stack)("train-a", node, anchored)

    def verify_archive(self, *, anchor: bool = False) -> Verified:
        """Verify the archive without the table."""
        return VerifyArchive(self.archive, self.vault if anchor else None, self.stack.id)("train-a")

    def entry_key(self, sequence: int, key: NodeKey = N1) -> Key:
        """Return the key of an entry of a node."""
        return keys.entry(keys.node_partition(key), 1, sequence)

    def rewrite(self, texts: Sequence[str], key: NodeKey = N1) -> None:
        """Replace a node's chain and state by another consistent pair, as a table writer could."""
        state, now = self.append.read(key), self.clock.now()
        for sequence in range(1, state.head.sequence + 1):
            self.table.write(Delete(self.entry_key(sequence, key)))
        drafts = [entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=now) for text in texts]
        sealed, head = seal(
            self.stack.stream(*key), Head(state.head.version), drafts, actor=Actor.CLI, severity=None, recorded_at=now
        )
        for entry in sealed:
            self.table.write(Put(items.entry_item(entry, keys.node_partition(key), 0)))
        self.table.write(Put(items.state_item(replace(state, head=head), now)))
