"""Hash chain: a scan compares entries with known hashes, a seal and the stored state, and names the first wrong one."""

from __future__ import annotations

from typing import Any

from faultbridge.decide import entry_builder
from faultbridge.model.entries import seal
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.nodes import Head
from faultbridge.model.storage import items, keys
from faultbridge.record.append import Stack
from faultbridge.record.hash_chain import Break, BreakKind, ChainScan, KnownHash, StreamSeal, table_form
from tests.builders import KEY, NOON, STACK_ID

STREAM = Stack(STACK_ID, "faultbridge").stream(*KEY)


def scanned(epoch: int, entries: int, **given: Any) -> tuple[ChainScan, list[Break], Head]:
    """Return a scan of a stream with so many entries in one epoch, its breaks, and the end of the stream."""
    drafts = [entry_builder.note(kind=NoteKind.OPERATOR, text=f"note {number}", at=NOON) for number in range(entries)]
    sealed, head = seal(STREAM, Head(epoch=epoch), drafts, actor=Actor.CLI, severity=None, recorded_at=NOON)
    scan = ChainScan(STREAM, table_form(0), **given)
    rows = [items.entry_item(entry, keys.node_partition(KEY), 0) for entry in sealed]
    return scan, [found for row in rows for found in scan.check(row)], head


def test_the_first_entry_that_is_missing_before_a_known_one_is_named() -> None:
    scan, breaks, _ = scanned(1, 3, known={(1, 5): KnownHash("h", "anchor-1")})
    detail = "anchor-1 recorded 1/5, which is missing"
    assert [*breaks, *scan.check_known()] == [Break(STREAM.name, 1, 4, BreakKind.ANCHOR, detail)]


def test_in_a_recovered_epoch_only_known_entries_of_that_epoch_can_be_missing() -> None:
    known = {(1, 5): KnownHash("h", "anchor-1"), (2, 3): KnownHash("h", "anchor-2")}
    scan, breaks, _ = scanned(2, 2, known=known, recovered=frozenset({2}))
    detail = "anchor-2 recorded 2/3, which is missing"
    assert [*breaks, *scan.check_known()] == [Break(STREAM.name, 2, 3, BreakKind.ANCHOR, detail)]


def test_a_seal_with_another_hash_is_the_only_break_of_its_stream() -> None:
    scan, breaks, head = scanned(1, 3, seal=StreamSeal(Head(epoch=1, sequence=3, hash="other"), (1, 3)))
    detail = "the seal of the stream holds another hash"
    assert [*breaks, *scan.check_head(head)] == [Break(STREAM.name, 1, 3, BreakKind.ROW, detail)]
