"""A small stack with an archive: entries are recorded, published and archived, days pass, are anchored and sealed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from faultbridge.archive.anchor import Anchor, PutOnChain
from faultbridge.archive.anchor_reader import AnchorReader
from faultbridge.archive.archive_verification import VerifyArchive
from faultbridge.archive.schedule import KeepRecord
from faultbridge.archive.seal import Seal, Sealed
from faultbridge.archive.write import WriteArchive
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, EntryType, seal
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.ledger.publish import Publish
from faultbridge.ledger.verify import Verified, Verify
from faultbridge.simulation.fakes import FakeBus
from faultbridge.simulation.fakes.objects import FakeArchive, FakeDelivery, FakeVault
from faultbridge.storage import items, keys
from faultbridge.storage.wire.archive_lines import ArchiveLine
from faultbridge.storage.writes import Delete, Key, Put
from tests.ingest.world import World

N1 = NodeKey("train-a", "n-1")
KEEP = timedelta(days=30)
Misdeliver = Callable[[Sequence[ArchiveLine]], Sequence[ArchiveLine]]


class Kept(World):
    """A World whose record is kept beyond the table."""

    def __init__(self, *, misdeliver: Misdeliver | None = None, keep: timedelta | None = KEEP, **others: Any) -> None:
        super().__init__(**others)
        self.archive, self.vault = FakeArchive(), FakeVault()
        self.sink = FakeDelivery(self.archive, misdeliver)
        self.anchor = Anchor(self.table, self.vault, self.clock, self.stack)
        self.seal = Seal(self.table, self.archive, self.vault, self.clock, self.stack, keep)
        self.keep_record = KeepRecord(
            self.table, self.clock, self.anchor, PutOnChain(self.table, self.clock, self.stack), self.seal
        )
        self._published = 0

    def publish(self) -> None:
        """Publish and archive what was recorded since the last time, in two batches."""
        new = [
            record.new
            for record in self.table.stream[self._published :]
            if record.event == "INSERT" and record.new and str(record.new["sk"]).startswith("ENTRY#")
        ]
        self._published = len(self.table.stream)
        Publish(self.table, FakeBus(), self.stack.id)(new)
        write = WriteArchive(self.sink)
        for batch in (new[: len(new) // 2], new[len(new) // 2 :]):
            write(batch)

    def story(self, nodes: int = 2, notes: int = 4) -> None:
        """Register nodes and note something on each, minute after minute, and publish it."""
        seats = [self.register_node(f"n-{number}") for number in range(1, nodes + 1)]
        for note in range(notes):
            for key in seats:
                self.pass_time(minutes=1)
                self.note(key, f"note {note}")
        self.rollup("train-a")
        self.publish()

    def seal_day(self) -> Sealed:
        """Let the day end and seal it."""
        day = self.clock.now().date().isoformat()
        self.pass_time(days=1)
        return self.seal(self.config, day)

    def verify(self, *, anchor: bool = False, node: str | None = None) -> Verified:
        """Verify the table."""
        seen = AnchorReader(self.vault)("train-a") if anchor else None
        return Verify(self.table, self.stack)("train-a", node, seen)

    def verify_archive(self, *, anchor: bool = False) -> Verified:
        """Verify the archive alone."""
        return VerifyArchive(self.archive, self.vault if anchor else None, self.stack.id)("train-a")

    def place(self, sequence: int, key: NodeKey = N1) -> Key:
        """Where an entry stands."""
        return keys.entry(keys.node_partition(key), 1, sequence)

    def rewrite(self, texts: Sequence[str], key: NodeKey = N1) -> None:
        """Do what a writer of the table can do: put another chain that fits, with the state that belongs to it."""
        state, now = self.append.read(key), self.clock.now()
        for sequence in range(1, state.head.sequence + 1):
            self.table.write(Delete(self.place(sequence, key)))
        drafts = [Draft(EntryType.NOTE, now, {"kind": "operator", "text": text}) for text in texts]
        sealed, head = seal(
            self.stack.stream(*key), Head(state.head.version), drafts, actor=Actor.CLI, severity=None, recorded_at=now
        )
        for entry in sealed:
            self.table.write(Put(items.entry_item(entry, keys.node_partition(key), 0)))
        self.table.write(Put(items.state_item(replace(state, head=head), now)))
