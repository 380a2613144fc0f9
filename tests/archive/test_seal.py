"""A day is sealed once the archive contains it; only then do its entries expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.wire.archive_lines import ArchiveLine
from faultbridge.model.storage.writes import Delete, Key, Update
from faultbridge.model.values import replace
from faultbridge.record.archive.anchor import read_anchor
from faultbridge.record.archive.seal import Manifest, Seal
from faultbridge.record.archive.verification import ReadArchive, VerifyArchive
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.record.verify import BreakKind
from tests.archive.world import KEEP, N1, ArchiveWorld
from tests.races import run_after_read
from tests.sim.fakes import Call, Seam

DAY = "2026-02-03"


def repeated(lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
    return [*lines, *lines]


def shuffled(lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
    return Random(7).sample(list(lines), len(lines))


class LoseFirstBatch:
    """Drops the first batch that is delivered."""

    def __init__(self) -> None:
        self.batches = 0

    def __call__(self, lines: Sequence[ArchiveLine]) -> Sequence[ArchiveLine]:
        self.batches += 1
        return [] if self.batches == 1 else lines


MISDELIVERIES = {"repeating": lambda: repeated, "reordering": lambda: shuffled, "losing a batch": LoseFirstBatch}


def kept(misdelivery: str | None = None, **others) -> ArchiveWorld:
    world = ArchiveWorld(misdelivery=MISDELIVERIES[misdelivery]() if misdelivery else None, **others)
    world.record_history()
    return world


def event_ids(lines) -> list[str]:
    return [line.event.metadata.event_id for line in lines]


def expiring(world: ArchiveWorld) -> list[str]:
    return [str(item["sk"]) for item in world.table.items() if "expires_at" in item and "ENTRY#" in str(item["sk"])]


@pytest.mark.parametrize("how", MISDELIVERIES)
def test_archive_and_table_together_contain_every_entry_once_after_any_misdelivery(how: str) -> None:
    world = kept(how)
    wanted = TimelineQuery("train-a")
    table = list(Timeline(world.table).entries(wanted))
    assert event_ids(ReadArchive(world.archive).entries(wanted, table)) == event_ids(table)


@pytest.mark.parametrize("how", MISDELIVERIES)
def test_a_sealed_archive_is_complete_after_any_misdelivery(how: str) -> None:
    world = kept(how)
    sealed = world.seal_day()
    assert sealed.entries == 11
    assert (sealed.completed > 0) is (how == "losing a batch")
    assert world.verify_archive().breaks == []
    archived = ReadArchive(world.archive).entries(TimelineQuery("train-a"))
    assert event_ids(archived) == event_ids(Timeline(world.table).entries(TimelineQuery("train-a")))


def test_lines_that_the_delivery_lost_are_gaps_until_the_seal() -> None:
    world = kept("losing a batch")
    breaks = world.verify_archive().breaks
    assert [(one.stream, one.sequence, one.kind) for one in breaks] == [
        ("train-a/n-1", 1, BreakKind.GAP),
        ("train-a/n-2", 1, BreakKind.GAP),
    ]
    world.seal_day()
    assert world.verify_archive().breaks == []


def test_a_stream_that_the_delivery_lost_completely_is_found_with_anchors() -> None:
    world = kept()
    world.anchor(world.config)
    for key in [key for key in world.archive.stored if key.startswith(layout.LINES)]:
        lines = [line for line in layout.unpack(world.archive.stored[key]) if line.node != "n-1"]
        world.archive.stored[key] = layout.pack(lines)
    assert world.verify_archive().breaks == []
    breaks = world.verify_archive(anchor=True).breaks
    assert [(one.stream, one.sequence, one.kind) for one in breaks] == [("train-a/n-1", 1, BreakKind.ANCHOR)]


def test_entries_expire_only_after_their_day_is_sealed() -> None:
    world = kept()
    assert expiring(world) == []
    world.seal_day()
    assert len(expiring(world)) == 11
    item = world.table.get(world.entry_key(1))
    assert item is not None
    assert item["expires_at"] == int((world.clock.now() + KEEP).timestamp())


def test_an_entry_of_a_later_day_expires_with_the_seal_of_that_day() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    assert world.entry_key(6).sk not in expiring(world)
    world.seal_day()
    assert world.entry_key(6).sk in expiring(world)


def test_sealing_a_day_again_does_not_extend_the_expiry() -> None:
    world = kept()
    world.seal_day()
    before = world.table.get(world.entry_key(5))
    world.pass_time(hours=1)
    world.seal(world.config, DAY)
    assert world.table.get(world.entry_key(5)) == before


def test_an_entry_recorded_at_midnight_belongs_to_the_new_day() -> None:
    world = kept()
    world.clock.advance_to(datetime.fromisoformat(DAY).replace(tzinfo=UTC) + timedelta(days=1))
    world.note(N1, "midnight")
    world.publish()
    assert world.seal(world.config, DAY).entries == 11
    assert world.seal_day().entries == 1


def test_an_archive_with_entries_after_its_last_seal_has_no_breaks() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    assert world.verify_archive(anchor=True).breaks == []


def test_entries_that_are_kept_forever_are_sealed_and_never_expire() -> None:
    world = kept(keep=None)
    world.seal_day()
    assert expiring(world) == []
    world.table.write(Delete(world.entry_key(2)))
    assert [(one.sequence, one.kind) for one in world.verify().breaks] == [(2, BreakKind.GAP)]


@pytest.mark.parametrize("anchor", [False, True])
def test_a_stream_has_no_breaks_whether_its_sealed_entries_expired_or_not(anchor: bool) -> None:
    world = kept()
    world.anchor(world.config)
    world.seal_day()
    for sequence in (1, 3, 5):
        world.table.write(Delete(world.entry_key(sequence)))
    world.note(N1, "later")
    assert world.verify(anchor=anchor).breaks == []
    world.table.write(Delete(world.entry_key(6)))
    assert [(one.sequence, one.kind) for one in world.verify(anchor=anchor).breaks] == [(6, BreakKind.HEAD)]


def test_an_unpublished_entry_is_sealed_with_a_later_day() -> None:
    world = kept()
    world.note(N1, "not published")
    world.seal_day()
    assert keys.entry("x", 1, 6).sk not in expiring(world)
    world.publish()
    assert world.seal_day().entries == 1
    assert world.verify_archive().breaks == []


def test_entries_from_a_break_onward_never_expire_and_the_break_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = kept()
    world.table.write(Update(world.entry_key(3), set={("body",): "{}"}))
    sealed = world.seal_day()
    assert [(one.stream, one.sequence) for one in sealed.breaks] == [("train-a/n-1", 3), ("train-a/n-1", 3)]
    expiring_n1 = [sk for pk, sk in _expiring_keys(world) if pk == keys.node_partition(N1)]
    assert expiring_n1 == [world.entry_key(1).sk, world.entry_key(2).sk]
    (logged,) = [vars(record) for record in caplog.records if record.message == "stream_not_sealed"]
    assert (logged["stream"], logged["sequence"]) == ("train-a/n-1", 3)


def _expiring_keys(world: ArchiveWorld) -> list[Key]:
    return [Key(str(i["pk"]), str(i["sk"])) for i in world.table.items() if "expires_at" in i and "body" in i]


def test_no_entry_expires_when_an_archive_object_differs_from_its_manifest() -> None:
    world = kept()

    def corrupt(call: Call) -> None:
        if call.name == "objects.get" and str(call.argument).startswith(layout.LINES):
            world.archive.stored[str(call.argument)] = layout.pack([])

    world.archive.seam.after = corrupt
    with pytest.raises(Misconfigured, match="no entry of that day expires"):
        world.seal_day()
    assert (expiring(world), world.vault.stored) == ([], {})


def test_no_entry_expires_when_the_archive_has_another_last_entry_of_its_stream() -> None:
    world = kept()
    stored = list(world.archive.list(layout.LINES))
    lines = [line for key in stored for line in layout.unpack(world.archive.stored[key]) if line.node == N1.node]
    last, folder = max(lines, key=lambda one: one.sequence), stored[0].rsplit("/", 1)[0]
    world.archive.put(f"{folder}/zzz.jsonl.gz", layout.pack([replace(last, hash="0" * 64)]))
    with pytest.raises(Misconfigured, match="no entry expires"):
        world.seal_day()
    assert (expiring(world), world.vault.stored) == ([], {})


def test_no_entry_expires_when_the_manifest_differs_from_the_locked_one() -> None:
    world = kept(keep=None)
    world.seal_day()
    (key,) = world.archive.list(layout.MANIFESTS)
    manifest = Manifest.read(world.archive.stored[key])
    world.archive.stored[key] = replace(manifest, sealed_at="2020-01-01T00:00:00.000Z").render()
    world.table.write(Delete(keys.stream_anchor(keys.node_partition(N1))))
    with pytest.raises(Misconfigured, match="differs from the locked manifest"):
        Seal(world.table, world.archive, world.vault, world.clock, world.stack, KEEP)(world.config, DAY)
    assert expiring(world) == []


def test_entries_lost_after_the_manifest_was_locked_do_not_expire() -> None:
    world = kept("losing a batch")
    _seal_and_stop_after(world, "vault.put", layout.SEALED)
    (key,) = world.vault.list(layout.SEALED)
    completed = next(one.key for one in Manifest.read(world.vault.stored[key]).objects if "completed" in one.key)
    late = world.archive.stored.pop(completed)
    world.archive.stored[layout.object_key("train-a", DAY, late)] = late
    with pytest.raises(Misconfigured, match="no entry of that day expires"):
        world.seal(world.config, DAY)
    assert expiring(world) == []


def test_entries_lost_after_the_manifest_was_stored_do_not_expire() -> None:
    world = kept()
    _seal_and_stop_after(world, "objects.put", layout.MANIFESTS)
    for key in world.archive.list(layout.LINES):
        world.archive.stored[key] = layout.pack([])
    with pytest.raises(Misconfigured, match="no entry of that day expires"):
        world.seal(world.config, DAY)
    assert expiring(world) == []


def _seal_and_stop_after(world: ArchiveWorld, name: str, prefix: str) -> None:
    """Seal the day and stop after the first call of that name with a key of that prefix."""

    def kill(call: Call) -> None:
        if call.name == name and str(call.argument).startswith(prefix):
            raise Transient(f"killed after {name}")

    for seam in _seams(world):
        seam.after = kill
    with pytest.raises(Transient):
        world.seal_day()
    _remove_hooks(world)


@pytest.mark.parametrize("how", [None, "losing a batch"])
def test_two_concurrent_runs_seal_a_day_once(how: str | None) -> None:
    calls = _calls_of_a_seal()
    for number in range(calls):
        world = kept(how)
        day = world.clock.now().date().isoformat()
        world.pass_time(days=1)
        _run_before_call(world, number, lambda world=world, day=day: world.seal(world.config, day))
        assert world.seal(world.config, day).entries == 11
        assert len(expiring(world)) == 11
        assert list(world.vault.list(layout.SEALED)) == [layout.sealed_key(layout.manifest_key("train-a", day))]
        assert world.verify_archive(anchor=True).breaks == []
        assert world.verify(anchor=True).breaks == []


def _run_before_call(world: ArchiveWorld, number: int, do: Callable[[], object]) -> None:
    """Run `do` one second later, right before the call with that number."""
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


def test_a_seal_interrupted_at_any_call_is_finished_by_the_next_run() -> None:
    calls = _calls_of_a_seal()
    assert calls > 25
    for stop in range(calls):
        world = kept()
        day = world.clock.now().date().isoformat()
        world.pass_time(days=1)
        _stop_after(world, stop)
        with pytest.raises(Transient):
            world.seal(world.config, day)
        _remove_hooks(world)
        _assert_only_proven_entries_expire(world)
        world.seal(world.config, day)
        assert len(expiring(world)) == 11
        assert world.verify_archive(anchor=True).breaks == []
        assert world.verify(anchor=True).breaks == []


def _assert_only_proven_entries_expire(world: ArchiveWorld) -> None:
    if expiring(world):
        assert world.vault.stored
        verified = VerifyArchive(world.archive, world.vault)("train-a")
        assert (verified.breaks, verified.entries) == ([], 11)


def _seams(world: ArchiveWorld) -> tuple[Seam, ...]:
    return world.table.seam, world.archive.seam, world.vault.seam


def _calls_of_a_seal() -> int:
    world = kept()
    for seam in _seams(world):
        seam.calls.clear()
    world.seal_day()
    return sum(len(seam.calls) for seam in _seams(world))


def _stop_after(world: ArchiveWorld, calls: int) -> None:
    left = [calls]

    def stop(call: Call) -> None:
        if left[0] == 0:
            raise Transient(f"stopped after {call.name}")
        left[0] -= 1

    for seam in _seams(world):
        seam.after = stop


def _remove_hooks(world: ArchiveWorld) -> None:
    for seam in _seams(world):
        seam.after = lambda call: None


def test_the_schedule_anchors_each_hour_and_seals_each_day_once_two_hours_after_its_end() -> None:
    world = kept()
    world.clock.advance_to(world.clock.now().replace(hour=23, minute=30))
    assert set(world.archive_schedule.run().roots) == {"train-a"}
    assert world.archive_schedule.run().roots == {}
    world.pass_time(hours=2)
    assert world.archive_schedule.run().sealed == 0
    world.pass_time(hours=1)
    first = world.archive_schedule.run()
    assert (set(first.roots), first.sealed, first.failures) == ({"train-a"}, 11, [])
    world.archive.seam.calls.clear()
    world.pass_time(hours=1)
    assert world.archive_schedule.run().sealed == 0
    assert world.archive.seam.calls == []


def anchors_on_chain(world: ArchiveWorld) -> list[dict]:
    lines = Timeline(world.table).entries(TimelineQuery("train-a"))
    return [line.event.data.facts for line in lines if getattr(line.event.data, "kind", None) == "anchor"]


def test_each_anchor_is_recorded_once_on_the_clusters_own_stream() -> None:
    world = kept()
    for _ in range(3):
        world.archive_schedule.run()
    world.pass_time(hours=1)
    world.archive_schedule.run()
    stored = [read_anchor(key, world.vault.get(key) or b"") for key in world.vault.list(layout.ANCHORS)]
    seen = {one.key: one.root for one in stored}
    assert {facts["anchor"]: facts["root"] for facts in anchors_on_chain(world)} == seen
    assert len(seen) == len(anchors_on_chain(world)) == 2
    assert world.verify(anchor=True).breaks == []


def test_an_anchor_that_two_runs_record_at_once_is_recorded_once() -> None:
    world = kept()
    anchor, record = world.anchor(world.config), world.archive_schedule.record_anchor
    run_after_read(world.table.seam, keys.cluster_anchored("train-a"), lambda: record(anchor))
    assert not record(anchor)
    assert len(anchors_on_chain(world)) == 1


def test_an_anchor_stored_before_a_crash_is_recorded_by_the_next_run() -> None:
    world = kept()
    world.anchor(world.config)
    assert anchors_on_chain(world) == []
    world.archive_schedule.run()
    assert len(anchors_on_chain(world)) == 1


def test_a_failing_cluster_is_reported_and_logged_and_does_not_raise(caplog: pytest.LogCaptureFixture) -> None:
    world = kept()
    world.vault.seam.before = _breaking_put
    assert len(world.archive_schedule.run().failures) == 1
    (logged,) = [vars(record) for record in caplog.records if record.message == "archive_run_failed"]
    assert (logged["cluster"], logged["reason"]) == ("train-a", "access denied")


def _breaking_put(call: Call) -> None:
    if call.name == "vault.put":
        raise Misconfigured("access denied")


def test_a_manifest_is_parsed_back_unchanged() -> None:
    world = kept()
    world.seal_day()
    body = world.archive.stored[f"manifests/cluster=train-a/day={DAY}.json"]
    manifest = Manifest.read(body)
    assert manifest.render() == body
    assert [(one.stream, one.first, one.last) for one in manifest.ranges] == [
        ("train-a", 1, 1),
        ("train-a/n-1", 1, 5),
        ("train-a/n-2", 1, 5),
    ]


def test_an_archive_whose_oldest_days_were_deleted_has_no_breaks() -> None:
    world = kept()
    world.seal_day()
    world.note(N1, "the next day")
    world.publish()
    world.seal_day()
    for key in [key for key in world.archive.stored if f"day={DAY}" in key]:
        del world.archive.stored[key]
    assert world.verify_archive().breaks == []


def test_a_time_window_reads_only_the_objects_of_its_days() -> None:
    world = kept()
    world.pass_time(days=3)
    world.note(N1, "later")
    world.publish()
    world.archive.seam.calls.clear()
    since = world.clock.now() - timedelta(hours=1)
    (line,) = ReadArchive(world.archive).entries(TimelineQuery("train-a", since=since))
    assert line.event.data.text == "later"
    assert len(world.archive.seam.named("objects.get")) == 1
