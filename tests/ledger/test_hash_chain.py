"""The hash chain of entries, the stream of a cluster, and queries of its rows."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from faultbridge.decide import entry_builder
from faultbridge.model.cluster.state import ClusterState
from faultbridge.model.entries import seal
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Conflict
from faultbridge.model.nodes import Head
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put, Update
from faultbridge.record.append import MAX_TRIES, Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes, event_ids
from faultbridge.record.hash_chain import Break, BreakKind, ChainScan, KnownHash, StreamSeal, table_form
from faultbridge.record.queries import node_names, nodes_in_use
from tests.builders import KEY, NOON, STACK_ID
from tests.ingest.world import LedgerFixture

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


STACK = Stack(STACK_ID, "faultbridge")


def two_notes(before: ClusterState) -> tuple[ClusterState, list[str]]:
    """Return a cluster's state after a commit of two notes, and the event ids that it recorded."""
    drafts = tuple(entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=NOON) for text in ("first", "second"))
    after, writes = cluster_writes(STACK, before, before, drafts, actor=Actor.CLI, severity=None, now=NOON)
    return after, [str(one.item["event_id"]) for one in writes if isinstance(one, Put) and "event_id" in one.item]


def test_the_event_ids_of_a_cluster_are_known_before_its_entries_are_recorded() -> None:
    state = ClusterState(KEY.cluster)
    for _ in range(2):
        known = event_ids(STACK, state, 2)
        state, recorded = two_notes(state)
        assert list(known) == recorded


def test_each_commit_of_a_cluster_raises_its_version_by_one() -> None:
    first, _ = two_notes(ClusterState(KEY.cluster))
    assert (first.head.version, two_notes(first)[0].head.version) == (1, 2)


def test_a_conflict_is_retried_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    conflicts = [Conflict("the version changed")]

    def read_and_write() -> str:
        if conflicts:
            raise conflicts.pop()
        return "committed"

    assert append_to_cluster(read_and_write) == "committed"
    (retried,) = [vars(record) for record in caplog.records if record.message == "cluster_commit_conflict"]
    assert (retried["reason"], retried["attempt"]) == ("the version changed", 1)


def test_after_twenty_conflicts_the_conflict_is_raised() -> None:
    calls: list[int] = []

    def read_and_write() -> None:
        calls.append(1)
        raise Conflict("the version changed")

    with pytest.raises(Conflict):
        append_to_cluster(read_and_write)
    assert len(calls) == MAX_TRIES


def test_the_nodes_in_use_are_the_registered_ones_that_are_not_retired() -> None:
    world = LedgerFixture()
    for name in ("n-1", "n-2"):
        world.register_node(name)
    world.table.write(Update(keys.roster("train-a", 0, "n-2"), set={("retired",): True}))
    assert [one.node for one in nodes_in_use(world.table, world.config)] == ["n-1"]
    assert list(node_names(world.table, world.config)) == ["n-1", "n-2"]
