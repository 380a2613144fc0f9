"""Concurrent writers: a write based on an outdated read fails, is repeated, or has no effect."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.errors import Conflict
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Delete, Key, Put, Update
from faultbridge.record.append import MAX_TRIES
from faultbridge.record.archive.anchor import RecordAnchor
from faultbridge.record.archive.seal import Manifest, SealedRange, expire_entries
from faultbridge.record.publish import Publish
from faultbridge.repair.attempt.step_runner import release_leaked_slots
from faultbridge.repair.controls import Controls
from faultbridge.repair.jobs.jobs import Jobs
from tests.archive.world import N1, ArchiveWorld
from tests.ingest.world import LedgerFixture
from tests.sim.fakes import Call, FakeBus, FakeTable

WRITES = {"table.write", "table.transact"}
CONTROL = keys.cluster_control("train-a")


def meanwhile(table: FakeTable, do: Callable[[], object], times: int = 1) -> None:
    """Run `do` as another writer, just before each of the next writes."""
    left, busy = [times], [False]

    def hook(call: Call) -> None:
        if call.name in WRITES and left[0] and not busy[0]:
            left[0] -= 1
            busy[0] = True
            do()
            busy[0] = False

    table.seam.before = hook


def bodies(table: FakeTable, pk: str = "CLUSTER#train-a") -> list[dict[str, Any]]:
    """Return the entries of a partition, in order."""
    return [json.loads(str(item["body"])) for item in table.query(pk, prefix=keys.ENTRY).items]


@pytest.fixture
def world() -> LedgerFixture:
    made = LedgerFixture()
    made.register_node("n-1")
    return made


def controls(world: LedgerFixture) -> Controls:
    return Controls(world.table, world.clock, world.stack)


def job_service(world: LedgerFixture) -> Jobs:
    return Jobs(world.append)


def holding(world: LedgerFixture, *cases: str) -> None:
    """Give repair slots to cases."""
    holders = {("holders", case): "2026-02-03T04:05:06.000Z" for case in cases}
    world.table.write(Update(CONTROL, set=holders, add={"version": 1}))


def test_an_order_keeps_the_concurrent_change_of_another_writer(world: LedgerFixture) -> None:
    meanwhile(world.table, lambda: holding(world, "c-1"))
    controls(world).pause("train-a")
    control = controls(world).read("train-a")
    assert (control.paused, set(control.holders)) == (True, {"c-1"})
    assert control.version == items.read_control("train-a", world.table.get(CONTROL)).version
    assert len([body for body in bodies(world.table) if body["metadata"]["event_type"] == "Cluster Safety Change"]) == 1


def test_two_concurrent_pauses_are_recorded_once(world: LedgerFixture) -> None:
    meanwhile(world.table, lambda: controls(world).pause("train-a"))
    controls(world).pause("train-a")
    assert len([body for body in bodies(world.table) if body["metadata"]["event_type"] == "Cluster Safety Change"]) == 1


def test_an_order_that_loses_every_race_raises_a_conflict(world: LedgerFixture) -> None:
    meanwhile(world.table, lambda: world.table.write(Update(CONTROL, add={"version": 1})), MAX_TRIES)
    with pytest.raises(Conflict):
        controls(world).pause("train-a")
    assert not controls(world).read("train-a").paused


def test_an_existing_entry_of_a_cluster_is_never_overwritten(world: LedgerFixture) -> None:
    held = items.read_cluster("train-a", world.table.get(keys.cluster_state("train-a"))).head
    place = keys.entry(keys.cluster_partition("train-a"), held.epoch, held.sequence + 1)
    world.table.write(Put({"pk": place.pk, "sk": place.sk, "body": "of another state"}))
    with pytest.raises(Conflict):
        controls(world).pause("train-a")
    assert world.table.get(place)["body"] == "of another state"


def test_an_existing_entry_of_a_node_is_never_overwritten(world: LedgerFixture) -> None:
    key = NodeKey("train-a", "n-1")
    head = world.append.read(key).head
    place = keys.entry(keys.node_partition(key), head.epoch, head.sequence + 1)
    world.table.write(Put({"pk": place.pk, "sk": place.sk, "body": "of another state"}))
    with pytest.raises(Conflict):
        world.note(key, "written from an outdated state")
    assert world.table.get(place)["body"] == "of another state"


def test_two_concurrent_starts_of_a_job_start_it_once(world: LedgerFixture) -> None:
    meanwhile(world.table, lambda: job_service(world).start("train-a", "88213", ["n-1"], name="the first"))
    job_service(world).start("train-a", "88213", ["n-1"], name="the first")
    assert [body["data"]["change"] for body in bodies(world.table) if "job_id" in body["data"]] == ["started"]


def test_a_job_that_has_ended_in_the_meantime_is_not_ended_again(world: LedgerFixture) -> None:
    job_service(world).start("train-a", "88213", ["n-1"])
    world.pass_time(minutes=5)
    meanwhile(world.table, lambda: job_service(world).end("train-a", "88213", outcome="failed"))
    assert job_service(world).end("train-a", "88213", outcome="succeeded").outcome == "failed"
    assert job_service(world).find("train-a", "88213").outcome == "failed"


def store_again(world: LedgerFixture) -> None:
    """Store the job as another writer does that changes nothing else."""
    writer = job_service(world).writer
    stored = writer.find("train-a", "88213")
    writer.store(stored, stored)


def test_a_change_of_only_the_job_is_detected_without_a_change_of_the_cluster_stream(world: LedgerFixture) -> None:
    job = job_service(world).start("train-a", "88213", ["n-1"])
    world.pass_time(minutes=5)
    meanwhile(world.table, lambda: store_again(world))
    job_service(world).end("train-a", "88213", outcome="succeeded")
    assert job_service(world).find("train-a", "88213").version == job.version + 3, "one more for its node"


def test_a_job_that_changes_before_every_write_raises_a_conflict(world: LedgerFixture) -> None:
    job_service(world).start("train-a", "88213", ["n-1"])
    world.pass_time(minutes=5)
    meanwhile(world.table, lambda: store_again(world), 100)
    with pytest.raises(Conflict):
        job_service(world).end("train-a", "88213", outcome="succeeded")


def test_a_slot_taken_during_the_search_for_leaked_slots_is_kept(world: LedgerFixture) -> None:
    holding(world, "c-leaked")
    meanwhile(world.table, lambda: holding(world, "c-new"))
    assert release_leaked_slots(world.table, "train-a") == ()
    assert set(items.read_control("train-a", world.table.get(CONTROL)).holders) == {"c-leaked", "c-new"}


def test_the_search_for_leaked_slots_writes_nothing_if_there_are_none(world: LedgerFixture) -> None:
    holding(world, "c-1")
    world.table.write(Put({"pk": keys.case("c-1").pk, "sk": keys.case("c-1").sk, "status": "in_progress"}))
    before = len(world.table.stream)
    assert release_leaked_slots(world.table, "train-a") == ()
    assert len(world.table.stream) == before


def test_publishing_does_not_restore_an_entry_that_was_archived_and_deleted(world: LedgerFixture) -> None:
    entries = list(world.table.query("NODE#train-a#n-1", prefix=keys.ENTRY).items)
    places = [Key(str(item["pk"]), str(item["sk"])) for item in entries]
    for place in places:
        world.table.write(Delete(place))
    assert Publish(world.table, FakeBus(), world.stack.id).publish(entries) == len(entries)
    assert [world.table.get(place) for place in places] == [None] * len(places)


def test_two_concurrent_writers_of_an_anchor_record_it_once() -> None:
    kept = ArchiveWorld()
    kept.record_history()
    anchored = kept.anchor(kept.config)
    put = RecordAnchor(kept.table, kept.clock, kept.stack)
    results: list[bool] = []
    meanwhile(kept.table, lambda: results.append(put(anchored)))
    assert (put(anchored), results) == (False, [True])
    assert anchors(kept) == [anchored.key]


def test_an_anchor_that_another_run_recorded_is_not_recorded_again() -> None:
    kept = ArchiveWorld()
    kept.record_history()
    anchored = kept.anchor(kept.config)
    meanwhile(kept.table, lambda: kept.table.write(_noted(kept, anchored.key)))
    assert not RecordAnchor(kept.table, kept.clock, kept.stack)(anchored)
    assert anchors(kept) == []


def test_an_anchor_is_recorded_although_the_cluster_changed_in_the_meantime() -> None:
    kept = ArchiveWorld()
    kept.record_history()
    meanwhile(kept.table, lambda: kept.rollup.update("train-a"))
    assert set(kept.archive_schedule.run().roots) == {"train-a"}
    assert len(anchors(kept)) == 1
    assert kept.verify(anchor=True).breaks == []


def test_a_run_that_loses_every_race_reports_the_cluster_as_late_and_not_as_failed() -> None:
    kept = ArchiveWorld()
    kept.record_history()
    meanwhile(kept.table, lambda: kept.rollup.update("train-a"), 100)
    done = kept.archive_schedule.run()
    assert (done.failures, [one.partition(":")[0] for one in done.late]) == ([], ["train-a"])


def sealed_day() -> tuple[ArchiveWorld, Manifest]:
    """Return a sealed day whose entries have no expiry time yet."""
    kept = ArchiveWorld()
    kept.record_history()
    stretch = SealedRange("train-a/n-1", "n-1", 1, 1, kept.append.read(N1).head.sequence, "h")
    return kept, Manifest("faultbridge", kept.stack.id, "train-a", "2026-02-03", "", stretch.last, (), (stretch,))


def test_setting_the_expiry_does_not_restore_a_deleted_entry() -> None:
    kept, manifest = sealed_day()
    kept.table.write(Delete(kept.entry_key(2)))
    expire_entries(kept.table, kept.clock, timedelta(days=30), manifest)
    assert kept.table.get(kept.entry_key(2)) is None
    assert "expires_at" in (kept.table.get(kept.entry_key(1)) or {})


def test_the_anchor_of_a_stream_never_moves_back_before_a_later_seal() -> None:
    kept, manifest = sealed_day()
    anchor = keys.stream_anchor(keys.node_partition(N1))
    later = items.item(anchor, kept.clock.now(), {"epoch": 9, "seq": 99, "place": "0009#000000000099"})
    meanwhile(kept.table, lambda: kept.table.write(Put(later)), 100)
    expire_entries(kept.table, kept.clock, timedelta(days=30), manifest)
    assert (kept.table.get(anchor) or {})["seq"] == 99


def anchors(kept: ArchiveWorld) -> list[str]:
    """Return the anchors in the cluster's chain, in order."""
    return [body["data"]["facts"]["anchor"] for body in bodies(kept.table) if body["data"].get("kind") == "anchor"]


def _noted(kept: ArchiveWorld, key: str) -> Put:
    return Put(items.item(keys.cluster_anchored("train-a"), kept.clock.now(), {"key": key}))
