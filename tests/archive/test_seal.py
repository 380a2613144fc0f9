"""A day is sealed once the archive has it all; only then may the table forget it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from faultbridge.archive.anchor import read_anchor
from faultbridge.archive.archive_verification import VerifyArchive
from faultbridge.archive.manifests import Manifest
from faultbridge.archive.read import ReadArchive
from faultbridge.archive.seal import Seal
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ledger.timeline import Timeline, Wanted
from faultbridge.ledger.verify import BreakKind
from faultbridge.simulation.fakes import Call, Seam
from faultbridge.storage import keys
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine
from faultbridge.storage.writes import Delete, Key, Update
from tests.archive.world import KEEP, N1, Kept

DAY = "2026-02-03"


def twice(lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
    return [*lines, *lines]


def shuffled(lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
    return Random(7).sample(list(lines), len(lines))


class LosesTheFirstBatch:
    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
        self.batches += 1
        return [] if self.batches == 1 else lines


MISDELIVERIES = {"repeating": lambda: twice, "reordering": lambda: shuffled, "losing a batch": LosesTheFirstBatch}


def kept(misdeliver: str | None = None, **others) -> Kept:
    world = Kept(misdeliver=MISDELIVERIES[misdeliver]() if misdeliver else None, **others)
    world.story()
    return world


def texts(lines) -> list[str]:
    return [line.event["metadata"]["event_id"] for line in lines]


def expiring(world: Kept) -> list[str]:
    return [str(item["sk"]) for item in world.table.items() if "expires_at" in item and "ENTRY#" in str(item["sk"])]


@pytest.mark.parametrize("how", MISDELIVERIES)
def test_a_reader_of_archive_and_table_sees_every_entry_once_whatever_the_delivery_did(how: str) -> None:
    world = kept(how)
    wanted = Wanted("train-a")
    table = list(Timeline(world.table).entries(wanted))
    assert texts(ReadArchive(world.archive).entries(wanted, table)) == texts(table)


@pytest.mark.parametrize("how", MISDELIVERIES)
def test_a_sealed_archive_is_whole_whatever_the_delivery_did(how: str) -> None:
    world = kept(how)
    sealed = world.seal_day()
    assert sealed.entries == 11
    assert (sealed.completed > 0) is (how == "losing a batch")
    assert world.verify_archive().breaks == []
    archived = ReadArchive(world.archive).entries(Wanted("train-a"))
    assert texts(archived) == texts(Timeline(world.table).entries(Wanted("train-a")))


def test_what_the_delivery_lost_is_named_until_it_is_sealed() -> None:
    world = kept("losing a batch")
    breaks = world.verify_archive().breaks
    assert [(one.stream, one.sequence, one.kind) for one in breaks] == [
        ("train-a/n-1", 1, BreakKind.GAP),
        ("train-a/n-2", 1, BreakKind.GAP),
    ]
    world.seal_day()
    assert world.verify_archive().breaks == []


def test_a_stream_that_the_delivery_lost_whole_is_named_by_the_anchor() -> None:
    world = kept()
    world.anchor(world.config)
    for key in [key for key in world.archive.stored if key.startswith(layout.LINES)]:
        lines = [line for line in layout.unpack(world.archive.stored[key]) if line.node != "n-1"]
        world.archive.stored[key] = layout.pack(lines)
    assert world.verify_archive().breaks == []
    breaks = world.verify_archive(anchor=True).breaks
    assert [(one.stream, one.sequence, one.kind) for one in breaks] == [("train-a/n-1", 1, BreakKind.ANCHOR)]


def test_nothing_expires_before_its_day_is_sealed() -> None:
    world = kept()
    assert expiring(world) == []
    world.seal_day()
    assert len(expiring(world)) == 11
    item = world.table.get(world.place(1))
    assert item is not None
    assert item["expires_at"] == int((world.clock.now() + KEEP).timestamp())


def test_what_a_later_day_recorded_expires_with_that_days_seal() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    assert world.place(6).sk not in expiring(world)
    world.seal_day()
    assert world.place(6).sk in expiring(world)


def test_a_day_that_is_sealed_again_gives_its_entries_no_longer_life() -> None:
    world = kept()
    world.seal_day()
    before = world.table.get(world.place(5))
    world.pass_time(hours=1)
    world.seal(world.config, DAY)
    assert world.table.get(world.place(5)) == before


def test_what_is_recorded_at_midnight_belongs_to_the_day_that_begins() -> None:
    world = kept()
    world.clock.advance_to(datetime.fromisoformat(DAY).replace(tzinfo=UTC) + timedelta(days=1))
    world.note(N1, "midnight")
    world.publish()
    assert world.seal(world.config, DAY).entries == 11
    assert world.seal_day().entries == 1


def test_an_archive_that_goes_on_after_its_last_seal_is_whole() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    assert world.verify_archive(anchor=True).breaks == []


def test_what_is_kept_for_ever_is_sealed_and_stays() -> None:
    world = kept(keep=None)
    world.seal_day()
    assert expiring(world) == []
    world.table.write(Delete(world.place(2)))
    assert [(one.sequence, one.kind) for one in world.verify().breaks] == [(2, BreakKind.GAP)]


@pytest.mark.parametrize("anchor", [False, True])
def test_a_stream_whose_sealed_entries_are_gone_or_there_is_whole(anchor: bool) -> None:
    world = kept()
    world.anchor(world.config)
    world.seal_day()
    for sequence in (1, 3, 5):
        world.table.write(Delete(world.place(sequence)))
    world.note(N1, "later")
    assert world.verify(anchor=anchor).breaks == []
    world.table.write(Delete(world.place(6)))
    assert [(one.sequence, one.kind) for one in world.verify(anchor=anchor).breaks] == [(6, BreakKind.HEAD)]


def test_what_waits_for_the_bus_is_sealed_with_a_later_day() -> None:
    world = kept()
    world.note(N1, "not published")
    world.seal_day()
    assert keys.entry("x", 1, 6).sk not in expiring(world)
    world.publish()
    assert world.seal_day().entries == 1
    assert world.verify_archive().breaks == []


def test_a_broken_stream_is_not_forgotten_from_the_break_on() -> None:
    world = kept()
    world.table.write(Update(world.place(3), set={("body",): "{}"}))
    sealed = world.seal_day()
    assert [(one.stream, one.sequence) for one in sealed.breaks] == [("train-a/n-1", 3), ("train-a/n-1", 3)]
    of_n1 = [sk for pk, sk in _expiring_keys(world) if pk == keys.node_partition(N1)]
    assert of_n1 == [world.place(1).sk, world.place(2).sk]


def _expiring_keys(world: Kept) -> list[Key]:
    return [Key(str(i["pk"]), str(i["sk"])) for i in world.table.items() if "expires_at" in i and "body" in i]


def test_an_archive_that_holds_something_else_lets_nothing_be_forgotten() -> None:
    world = kept()

    def corrupt(call: Call) -> None:
        if call.name == "objects.get" and str(call.argument).startswith(layout.LINES):
            world.archive.stored[str(call.argument)] = layout.pack([])

    world.archive.seam.after = corrupt
    with pytest.raises(Misconfigured, match="nothing of that day is forgotten"):
        world.seal_day()
    assert (expiring(world), world.vault.stored) == ([], {})


def test_a_manifest_that_was_changed_after_its_seal_lets_nothing_be_forgotten() -> None:
    world = kept(keep=None)
    world.seal_day()
    (key,) = world.archive.list(layout.MANIFESTS)
    manifest = Manifest.read(world.archive.stored[key])
    world.archive.stored[key] = replace(manifest, sealed_at="2020-01-01T00:00:00.000Z").render()
    world.table.write(Delete(keys.stream_anchor(keys.node_partition(N1))))
    with pytest.raises(Misconfigured, match="not what was sealed first"):
        Seal(world.table, world.archive, world.vault, world.clock, world.stack, KEEP)(world.config, DAY)
    assert expiring(world) == []


def test_what_was_lost_after_its_lock_is_not_forgotten_by_the_round_that_finishes() -> None:
    world = kept("losing a batch")
    _killed_right_after(world, "vault.put", layout.SEALED)
    (key,) = world.vault.list(layout.SEALED)
    completed = next(part.key for part in Manifest.read(world.vault.stored[key]).parts if "completed" in part.key)
    late = world.archive.stored.pop(completed)
    world.archive.stored[layout.object_key("train-a", DAY, late)] = late
    with pytest.raises(Misconfigured, match="nothing of that day is forgotten"):
        world.seal(world.config, DAY)
    assert expiring(world) == []


def test_what_was_lost_after_its_manifest_was_kept_is_not_forgotten_by_the_round_that_finishes() -> None:
    world = kept()
    _killed_right_after(world, "objects.put", layout.MANIFESTS)
    for key in world.archive.list(layout.LINES):
        world.archive.stored[key] = layout.pack([])
    with pytest.raises(Misconfigured, match="nothing of that day is forgotten"):
        world.seal(world.config, DAY)
    assert expiring(world) == []


def _killed_right_after(world: Kept, name: str, prefix: str) -> None:
    """Seal the day with a worker that dies after the first call of that name to a key that begins so."""

    def kill(call: Call) -> None:
        if call.name == name and str(call.argument).startswith(prefix):
            raise Transient(f"killed after {name}")

    for seam in _seams(world):
        seam.after = kill
    with pytest.raises(Transient):
        world.seal_day()
    _let_go(world)


@pytest.mark.parametrize("how", [None, "losing a batch"])
def test_two_rounds_that_seal_a_day_at_once_seal_it_once(how: str | None) -> None:
    calls = _calls_of_a_seal()
    for number in range(calls):
        world = kept(how)
        day = world.clock.now().date().isoformat()
        world.pass_time(days=1)
        _another_round_before(world, number, lambda world=world, day=day: world.seal(world.config, day))
        assert world.seal(world.config, day).entries == 11
        assert len(expiring(world)) == 11
        assert list(world.vault.list(layout.SEALED)) == [layout.sealed_key(layout.manifest_key("train-a", day))]
        assert world.verify_archive(anchor=True).breaks == []
        assert world.verify(anchor=True).breaks == []


def _another_round_before(world: Kept, number: int, do: Callable[[], object]) -> None:
    """Let somebody else do something a moment later, right before the call of that number."""
    left = [number]

    def hook(_: Call) -> None:
        left[0] -= 1
        if left[0] < 0:
            for seam in _seams(world):
                seam.before = lambda call: None
            world.pass_time(seconds=1)
            do()

    for seam in _seams(world):
        seam.before = hook


def test_a_seal_that_stops_anywhere_is_finished_by_the_next_and_forgets_nothing_unproven() -> None:
    calls = _calls_of_a_seal()
    assert calls > 25
    for stop in range(calls):
        world = kept()
        day = world.clock.now().date().isoformat()
        world.pass_time(days=1)
        _stop_after(world, stop)
        with pytest.raises(Transient):
            world.seal(world.config, day)
        _let_go(world)
        _nothing_unproven(world)
        world.seal(world.config, day)
        assert len(expiring(world)) == 11
        assert world.verify_archive(anchor=True).breaks == []
        assert world.verify(anchor=True).breaks == []


def _nothing_unproven(world: Kept) -> None:
    if expiring(world):
        assert world.vault.stored
        verified = VerifyArchive(world.archive, world.vault)("train-a")
        assert (verified.breaks, verified.entries) == ([], 11)


def _seams(world: Kept) -> tuple[Seam, ...]:
    return world.table.seam, world.archive.seam, world.vault.seam


def _calls_of_a_seal() -> int:
    world = kept()
    for seam in _seams(world):
        seam.calls.clear()
    world.seal_day()
    return sum(len(seam.calls) for seam in _seams(world))


def _stop_after(world: Kept, calls: int) -> None:
    left = [calls]

    def stop(call: Call) -> None:
        if left[0] == 0:
            raise Transient(f"stopped after {call.name}")
        left[0] -= 1

    for seam in _seams(world):
        seam.after = stop


def _let_go(world: Kept) -> None:
    for seam in _seams(world):
        seam.after = lambda call: None


def test_a_round_anchors_each_hour_and_seals_each_day_once() -> None:
    world = kept()
    world.clock.advance_to(world.clock.now().replace(hour=23, minute=30))
    assert set(world.keep_record().roots) == {"train-a"}
    assert world.keep_record().roots == {}
    world.pass_time(hours=3)
    first = world.keep_record()
    assert (set(first.roots), first.sealed, first.failures) == ({"train-a"}, 11, [])
    world.archive.seam.calls.clear()
    world.pass_time(hours=1)
    assert world.keep_record().sealed == 0
    assert world.archive.seam.calls == []


def anchors_on_chain(world: Kept) -> list[dict]:
    own = Timeline(world.table).entries(Wanted("train-a"))
    return [line.event["data"]["facts"] for line in own if line.event["data"].get("kind") == "anchor"]


def test_each_anchor_is_on_its_clusters_own_chain_once_by_its_root() -> None:
    world = kept()
    for _ in range(3):
        world.keep_record()
    world.pass_time(hours=1)
    world.keep_record()
    put = [read_anchor(key, world.vault.get(key) or b"") for key in world.vault.list(layout.ANCHORS)]
    seen = {one.key: one.root for one in put}
    assert {told["anchor"]: told["root"] for told in anchors_on_chain(world)} == seen
    assert len(seen) == len(anchors_on_chain(world)) == 2
    assert world.verify(anchor=True).breaks == []


def test_an_anchor_that_was_put_before_a_crash_comes_onto_the_chain_with_the_next_round() -> None:
    world = kept()
    world.anchor(world.config)
    assert anchors_on_chain(world) == []
    world.keep_record()
    assert len(anchors_on_chain(world)) == 1


def test_a_cluster_in_trouble_does_not_stop_the_others() -> None:
    world = kept()
    world.vault.seam.before = _breaking_put
    assert len(world.keep_record().failures) == 1


def _breaking_put(call: Call) -> None:
    if call.name == "vault.put":
        raise Misconfigured("no right to put")


def test_a_manifest_reads_back_as_it_was_written() -> None:
    world = kept()
    world.seal_day()
    body = world.archive.stored[f"manifests/cluster=train-a/day={DAY}.json"]
    manifest = Manifest.read(body)
    assert manifest.render() == body
    assert [(one.stream, one.first, one.last) for one in manifest.stretches] == [
        ("train-a", 1, 1),
        ("train-a/n-1", 1, 5),
        ("train-a/n-2", 1, 5),
    ]


def test_days_deleted_on_purpose_do_not_break_what_is_left_of_an_archive() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    world.seal_day()
    for key in [key for key in world.archive.stored if f"day={DAY}" in key]:
        del world.archive.stored[key]
    assert world.verify_archive().breaks == []


def test_a_window_reads_its_own_days_only() -> None:
    world = kept()
    world.pass_time(days=3)
    world.note(N1, "later")
    world.publish()
    world.archive.seam.calls.clear()
    since = world.clock.now() - timedelta(hours=1)
    (line,) = ReadArchive(world.archive).entries(Wanted("train-a", since=since))
    assert line.event["data"]["text"] == "later"
    assert len(world.archive.seam.named("objects.get")) == 1
