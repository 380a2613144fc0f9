"""Verify reports no break for what is written while it reads: entries, rows of a node, and seals."""

from __future__ import annotations

import pytest

from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from tests.archive.world import ArchiveWorld
from tests.ledger.builders import N1, recorded_history
from tests.sim.fakes.seam import Call


@pytest.mark.parametrize(("moment", "entries"), [("before", 6), ("after", 5)])
def test_entries_recorded_before_or_after_the_head_was_read_are_not_breaks(moment: str, entries: int) -> None:
    world, verify = recorded_history()
    reads = iter(range(10))

    def note(call: Call) -> None:
        # The first read of the state is for its shard, before the entries are read; the second one is for the head.
        if call.argument == keys.node_state(N1) and next(reads) == 1:
            setattr(world.table.seam, moment, lambda _: None)
            world.note(N1, "after the entries were read")

    setattr(world.table.seam, moment, note)
    verified = verify("train-a", "n-1")
    assert (verified.breaks, verified.entries, next(reads)) == ([], entries, 2)


def test_entries_that_expire_during_the_verification_are_not_breaks() -> None:
    world = ArchiveWorld()
    world.record_history()

    def expire_before_the_entries_are_read(call: Call) -> None:
        if call.argument == (keys.node_partition(N1), None):
            world.table.seam.before = lambda _: None
            world.seal_day()
            for sequence in range(1, 5):
                world.table.write(Delete(world.entry_key(sequence)))

    world.table.seam.before = expire_before_the_entries_are_read
    verified = world.verify(node="n-1")
    assert (verified.breaks, verified.entries) == ([], 1)
