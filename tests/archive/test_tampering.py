"""Each way to tamper with the record: where `verify` finds it, with or without anchors."""

from __future__ import annotations

import gzip
import json

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.writes import Delete, Put, Update
from faultbridge.model.values import replace
from faultbridge.record.verify import BreakKind, Verified
from tests.archive.world import N1, ArchiveWorld
from tests.builders import change_stored_head
from tests.sim.fakes.seam import Call

BOTH = pytest.mark.parametrize("anchor", [False, True], ids=["alone", "with the anchor"])


@pytest.fixture
def world() -> ArchiveWorld:
    """Return a world with five entries on each of two nodes, published, archived and anchored."""
    kept = ArchiveWorld()
    kept.record_history()
    kept.anchor(kept.config)
    return kept


def found(verified: Verified) -> set[tuple[str, int, BreakKind]]:
    return {(one.stream, one.sequence, one.kind) for one in verified.breaks}


def changed(body: str, text: str) -> str:
    event = json.loads(body)
    event["data"]["text"] = text
    return json.dumps(event, sort_keys=True, separators=(",", ":"))


@BOTH
def test_an_untouched_record_has_no_breaks(world: ArchiveWorld, anchor: bool) -> None:
    assert world.verify(anchor=anchor).breaks == []
    assert world.verify_archive(anchor=anchor).breaks == []


@BOTH
def test_a_changed_entry_is_found_without_anchors(world: ArchiveWorld, anchor: bool) -> None:
    item = world.table.get(world.entry_key(3))
    assert item is not None
    world.table.write(Update(world.entry_key(3), set={("body",): changed(str(item["body"]), "nothing")}))
    assert found(world.verify(anchor=anchor)) == {("train-a/n-1", 3, BreakKind.HASH)}


@BOTH
def test_a_deleted_entry_in_the_middle_is_found_without_anchors(world: ArchiveWorld, anchor: bool) -> None:
    world.table.write(Delete(world.entry_key(3)))
    assert found(world.verify(anchor=anchor)) == {("train-a/n-1", 3, BreakKind.GAP)}


@BOTH
def test_an_inserted_entry_is_found_without_anchors(world: ArchiveWorld, anchor: bool) -> None:
    third, fourth = world.table.get(world.entry_key(3)), world.table.get(world.entry_key(4))
    assert third is not None
    assert fourth is not None
    world.table.write(Put({**third, "sk": third["sk"] + "x"}))
    assert ("train-a/n-1", 4, BreakKind.GAP) in found(world.verify(anchor=anchor))


def test_a_deleted_last_entry_with_a_matching_state_is_found_with_anchors(world: ArchiveWorld) -> None:
    world.table.write(Delete(world.entry_key(5)))
    assert found(world.verify()) == {("train-a/n-1", 5, BreakKind.HEAD)}
    fourth = world.table.get(world.entry_key(4))
    assert fourth is not None
    head = {"sequence": 4, "hash": fourth["hash"], "event_id": fourth["event_id"]}
    change_stored_head(world.table, N1, **head)
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_rewritten_chain_with_a_matching_state_is_found_with_anchors(world: ArchiveWorld) -> None:
    world.rewrite([f"lie {number}" for number in range(5)])
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_rewritten_chain_is_still_found_after_the_next_anchor(world: ArchiveWorld) -> None:
    world.rewrite([f"lie {number}" for number in range(5)])
    world.pass_time(hours=1)
    world.anchor(world.config)
    assert ("train-a/n-1", 5, BreakKind.ANCHOR) in found(world.verify(anchor=True))


def test_a_longer_rewritten_chain_is_found_at_the_anchored_entry(world: ArchiveWorld) -> None:
    world.rewrite([f"lie {number}" for number in range(9)])
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_node_deleted_with_its_stream_is_found_with_anchors(world: ArchiveWorld) -> None:
    world.table.write(Delete(keys.roster("train-a", 0, "n-1")))
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_false_seal_in_the_table_is_found_with_anchors(world: ArchiveWorld) -> None:
    last = world.table.get(world.entry_key(5))
    assert last is not None
    anchor = keys.stream_anchor(keys.node_partition(N1))
    place = "0001#000000000005"
    false_seal = {"epoch": 1, "seq": 5, "hash": last["hash"], "expires_to": place, "place": place}
    world.table.write(Put({"pk": anchor.pk, "sk": anchor.sk, "schema": 1, **false_seal}))
    for sequence in range(1, 5):
        world.table.write(Delete(world.entry_key(sequence)))
    assert world.verify().breaks == []
    assert found(world.verify(anchor=True)) == {("train-a/n-1", 5, BreakKind.ANCHOR)}


def test_a_sealed_entry_that_is_still_in_the_table_is_checked(world: ArchiveWorld) -> None:
    world.seal_day()
    item = world.table.get(world.entry_key(3))
    assert item is not None
    assert "expires_at" in item
    world.table.write(Update(world.entry_key(3), set={("body",): changed(str(item["body"]), "nothing")}))
    assert found(world.verify()) == {("train-a/n-1", 3, BreakKind.HASH)}


def test_a_sealed_entry_may_be_missing_and_a_later_one_may_not(world: ArchiveWorld) -> None:
    world.seal_day()
    world.note(N1, "the next day")
    world.note(N1, "the next day")
    for sequence in (1, 3):
        world.table.write(Delete(world.entry_key(sequence)))
    assert world.verify().breaks == []
    world.table.write(Delete(world.entry_key(6)))
    assert found(world.verify()) == {("train-a/n-1", 6, BreakKind.GAP)}


def test_entries_that_expired_are_no_break_after_retention_was_disabled(world: ArchiveWorld) -> None:
    world.seal_day()
    for sequence in range(1, 6):
        world.table.write(Delete(world.entry_key(sequence)))
    world.note(N1, "kept forever")
    world.publish()
    world.seal = replace(world.seal, keep=None)
    world.seal_day()
    assert world.verify(anchor=True).breaks == []


def test_an_expiry_time_on_an_entry_that_is_not_sealed_is_found(world: ArchiveWorld) -> None:
    world.seal_day()
    world.note(N1, "the next day")
    world.table.write(Update(world.entry_key(6), set={("expires_at",): 1}))
    assert found(world.verify()) == {("train-a/n-1", 6, BreakKind.ATTRIBUTE)}


@pytest.mark.parametrize("stop_at", range(1, 7))
def test_an_interrupted_sealing_is_no_break(world: ArchiveWorld, stop_at: int) -> None:
    world.pass_time(days=1)
    writes = iter(range(1, 100))

    def stop(call: Call) -> None:
        if call.name == "table.write" and next(writes) == stop_at:
            raise Transient("the function ends")

    world.table.seam.before = stop
    with pytest.raises(Transient):
        world.seal(world.config, "2026-02-03")
    world.table.seam.before = lambda _: None
    assert world.verify().breaks == []


def test_evidence_that_was_replaced_is_found_in_the_archive_and_is_never_sealed(world: ArchiveWorld) -> None:
    world.observe_faults(N1)
    world.publish()
    key = world.entry_key(6)
    world.table.write(Update(key, set={("evidence",): "all fine"}))
    result = world.seal_day()
    assert [(one.sequence, one.kind) for one in result.breaks] == [(6, BreakKind.ATTRIBUTE)]
    item = world.table.get(key)
    assert item is not None
    assert "expires_at" not in item


@BOTH
def test_a_changed_attribute_of_an_archived_entry_is_found(world: ArchiveWorld, anchor: bool) -> None:
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    lines = list(layout.unpack(world.archive.stored[key]))
    lines[0] = replace(lines[0], severity="fatal")
    world.archive.stored[key] = layout.pack(lines)
    assert {one.kind for one in world.verify_archive(anchor=anchor).breaks} == {BreakKind.ATTRIBUTE}


@BOTH
@pytest.mark.parametrize("same_hash", [False, True])
def test_a_second_entry_for_a_position_in_another_archive_object_is_a_fork(
    world: ArchiveWorld, anchor: bool, same_hash: bool
) -> None:
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    line = next(iter(layout.unpack(world.archive.stored[key])))
    forged = replace(line, body=changed(line.body, "nothing"), hash=line.hash if same_hash else "0" * 64)
    folder = key.rsplit("/", 1)[0]
    world.archive.put(f"{folder}/zzz.jsonl.gz", layout.pack([forged]))
    expected = (line.stream, line.sequence, BreakKind.FORK)
    assert found(world.verify_archive(anchor=anchor)) == {expected}


@pytest.mark.parametrize("damage", ["truncated", "another head", "another root"])
def test_an_anchor_that_cannot_be_read_is_a_break(world: ArchiveWorld, damage: str) -> None:
    key = next(key for key in world.vault.stored if key.startswith(layout.ANCHORS))
    document = json.loads(gzip.decompress(world.vault.stored[key]))
    if damage == "another head":
        document["heads"]["train-a/n-1"][2] = "0" * 64
    if damage == "another root":
        document["root"] = "0" * 64
    body = gzip.compress(json.dumps(document).encode())
    world.vault.stored[key] = body[:-9] if damage == "truncated" else body
    (broken,) = (one for one in world.verify(anchor=True).breaks if one.kind is BreakKind.OBJECT)
    assert key in broken.detail


@BOTH
def test_a_changed_archive_object_is_found_without_anchors(world: ArchiveWorld, anchor: bool) -> None:
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
def test_a_deleted_sealed_archive_object_is_found_without_anchors(world: ArchiveWorld, anchor: bool) -> None:
    world.seal_day()
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    del world.archive.stored[key]
    breaks = world.verify_archive(anchor=anchor).breaks
    assert (key, BreakKind.OBJECT) in {(one.object, one.kind) for one in breaks}


@BOTH
@pytest.mark.parametrize("left", [0, 3])
def test_an_archive_that_ends_before_its_seal_has_a_gap_there(world: ArchiveWorld, anchor: bool, left: int) -> None:
    world.seal_day()
    for key in [key for key in world.archive.stored if key.startswith(layout.LINES)]:
        lines = layout.unpack(world.archive.stored[key])
        world.archive.stored[key] = layout.pack([one for one in lines if one.node != "n-1" or one.sequence <= left])
    breaks = [one for one in world.verify_archive(anchor=anchor).breaks if one.stream == "train-a/n-1"]
    assert [(one.epoch, one.sequence, one.kind) for one in breaks] == [(1, left + 1, BreakKind.GAP)]


def test_an_archive_rewritten_with_its_manifest_is_found_with_anchors(world: ArchiveWorld) -> None:
    world.seal_day()
    original = set(world.archive.stored)
    world.archive.stored.clear()
    forged = ArchiveWorld()
    forged.record_history(notes=3)
    forged.seal_day()
    world.archive.stored.update(forged.archive.stored)
    assert set(world.archive.stored) != original
    assert world.verify_archive().breaks == []
    breaks = world.verify_archive(anchor=True).breaks
    assert ("manifests/cluster=train-a/day=2026-02-03.json", BreakKind.OBJECT) in {(b.object, b.kind) for b in breaks}
    assert {"train-a/n-1", "train-a/n-2"} <= {one.stream for one in breaks}


def test_a_deleted_manifest_is_found_with_anchors(world: ArchiveWorld) -> None:
    world.seal_day()
    del world.archive.stored["manifests/cluster=train-a/day=2026-02-03.json"]
    assert world.verify_archive().breaks == []
    (one,) = world.verify_archive(anchor=True).breaks
    assert one.object == "manifests/cluster=train-a/day=2026-02-03.json"
