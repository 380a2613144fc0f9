"""Each way to tamper with the record, by name: where `verify` finds it, and whether that takes the anchor."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from faultbridge.ledger.verify import BreakKind, Verified
from faultbridge.storage import keys
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.writes import Delete, Put, Update
from tests.archive.world import N1, Kept

BOTH = pytest.mark.parametrize("anchor", [False, True], ids=["alone", "with the anchor"])


@pytest.fixture
def world() -> Kept:
    """Five entries on each of two nodes, published, archived and anchored."""
    kept = Kept()
    kept.story()
    kept.anchor(kept.config)
    return kept


def found(verified: Verified) -> set[tuple[str, int, BreakKind]]:
    return {(one.stream, one.sequence, one.kind) for one in verified.breaks}


def changed(body: str, text: str) -> str:
    event = json.loads(body)
    event["data"]["text"] = text
    return json.dumps(event, sort_keys=True, separators=(",", ":"))


@BOTH
def test_an_untouched_record_is_whole(world: Kept, anchor: bool) -> None:
    assert world.verify(anchor=anchor).breaks == []
    assert world.verify_archive(anchor=anchor).breaks == []


@BOTH
def test_a_changed_entry_needs_no_anchor(world: Kept, anchor: bool) -> None:
    item = world.table.get(world.place(3))
    assert item is not None
    world.table.write(Update(world.place(3), set={("body",): changed(str(item["body"]), "nothing")}))
    assert found(world.verify(anchor=anchor)) == {("train-a/n-1", 3, BreakKind.HASH)}


@BOTH
def test_a_deleted_middle_needs_no_anchor(world: Kept, anchor: bool) -> None:
    world.table.write(Delete(world.place(3)))
    assert found(world.verify(anchor=anchor)) == {("train-a/n-1", 3, BreakKind.GAP)}


@BOTH
def test_an_inserted_entry_needs_no_anchor(world: Kept, anchor: bool) -> None:
    third, fourth = world.table.get(world.place(3)), world.table.get(world.place(4))
    assert third is not None
    assert fourth is not None
    world.table.write(Put({**third, "sk": third["sk"] + "x"}))
    assert ("train-a/n-1", 4, BreakKind.GAP) in found(world.verify(anchor=anchor))


def test_a_cut_tail_needs_the_anchor_once_the_state_is_cut_too(world: Kept) -> None:
    world.table.write(Delete(world.place(5)))
    assert found(world.verify()) == {("train-a/n-1", 5, BreakKind.HEAD)}
    fourth = world.table.get(world.place(4))
    assert fourth is not None
    head = {("state", "head", "sequence"): 4, ("state", "head", "hash"): fourth["hash"]}
    world.table.write(Update(keys.node_state(N1), set=head))
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_rewritten_chain_with_its_state_needs_the_anchor(world: Kept) -> None:
    world.rewrite([f"lie {number}" for number in range(5)])
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_rewritten_chain_is_named_after_the_next_anchor_too(world: Kept) -> None:
    world.rewrite([f"lie {number}" for number in range(5)])
    world.pass_time(hours=1)
    world.anchor(world.config)
    assert ("train-a/n-1", 5, BreakKind.ANCHOR) in found(world.verify(anchor=True))


def test_a_chain_rewritten_and_grown_is_named_where_the_anchor_saw_it(world: Kept) -> None:
    world.rewrite([f"lie {number}" for number in range(9)])
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_node_that_vanished_with_its_stream_needs_the_anchor(world: Kept) -> None:
    world.table.write(Delete(keys.roster("train-a", 0, "n-1")))
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_false_seal_in_the_table_needs_the_anchor(world: Kept) -> None:
    last = world.table.get(world.place(5))
    assert last is not None
    anchor = keys.stream_anchor(keys.node_partition(N1))
    told = {"epoch": 1, "seq": 5, "hash": last["hash"], "expiring": True, "place": "0001#000000000005"}
    world.table.write(Put({"pk": anchor.pk, "sk": anchor.sk, "schema": 1, **told}))
    for sequence in range(1, 5):
        world.table.write(Delete(world.place(sequence)))
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


@BOTH
def test_a_changed_archive_object_needs_no_anchor(world: Kept, anchor: bool) -> None:
    world.seal_day()
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    lines = list(layout.unpack(world.archive.stored[key]))
    at = next(number for number, line in enumerate(lines) if line.stream == "train-a/n-1")
    lines[at] = replace(lines[at], body=changed(lines[at].body, "nothing"))
    world.archive.stored[key] = layout.pack(lines)
    breaks = world.verify_archive(anchor=anchor).breaks
    assert (key, BreakKind.OBJECT) in {(one.object, one.kind) for one in breaks}
    assert (lines[at].stream, lines[at].sequence, BreakKind.HASH) in found(world.verify_archive(anchor=anchor))


@BOTH
def test_a_deleted_archive_object_needs_no_anchor_once_it_is_sealed(world: Kept, anchor: bool) -> None:
    world.seal_day()
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    del world.archive.stored[key]
    breaks = world.verify_archive(anchor=anchor).breaks
    assert (key, BreakKind.OBJECT) in {(one.object, one.kind) for one in breaks}


@BOTH
@pytest.mark.parametrize("left", [0, 3])
def test_an_archive_that_ends_before_its_seal_is_named_where_it_ends(world: Kept, anchor: bool, left: int) -> None:
    world.seal_day()
    for key in [key for key in world.archive.stored if key.startswith(layout.LINES)]:
        lines = layout.unpack(world.archive.stored[key])
        world.archive.stored[key] = layout.pack([one for one in lines if one.node != "n-1" or one.sequence <= left])
    breaks = [one for one in world.verify_archive(anchor=anchor).breaks if one.stream == "train-a/n-1"]
    assert [(one.epoch, one.sequence, one.kind) for one in breaks] == [(1, left + 1, BreakKind.GAP)]


def test_an_archive_rewritten_with_its_manifest_needs_the_anchor(world: Kept) -> None:
    world.seal_day()
    honest = set(world.archive.stored)
    world.archive.stored.clear()
    liar = Kept()
    liar.story(notes=3)
    liar.seal_day()
    world.archive.stored.update(liar.archive.stored)
    assert set(world.archive.stored) != honest
    assert world.verify_archive().breaks == []
    breaks = world.verify_archive(anchor=True).breaks
    assert ("manifests/cluster=train-a/day=2026-02-03.json", BreakKind.OBJECT) in {(b.object, b.kind) for b in breaks}
    assert {"train-a/n-1", "train-a/n-2"} <= {one.stream for one in breaks}


def test_a_manifest_that_is_gone_needs_the_anchor(world: Kept) -> None:
    world.seal_day()
    del world.archive.stored["manifests/cluster=train-a/day=2026-02-03.json"]
    assert world.verify_archive().breaks == []
    (one,) = world.verify_archive(anchor=True).breaks
    assert one.object == "manifests/cluster=train-a/day=2026-02-03.json"
