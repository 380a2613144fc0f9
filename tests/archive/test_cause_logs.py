"""The archive logs a cause for everything that it skips, and for each concurrent run."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.writes import Delete
from faultbridge.record.archive.anchor import read_anchor
from faultbridge.record.archive.seal import Manifest, expire_entries
from tests.archive.world import KEEP, N1, ArchiveWorld
from tests.sim.fakes import Call

DAY = "2026-02-03"


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> ArchiveWorld:
    caplog.set_level(logging.INFO)
    made = ArchiveWorld()
    made.record_history()
    return made


def logged(caplog: pytest.LogCaptureFixture, decision: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.message == decision]


def test_an_unreadable_archive_object_is_skipped_with_a_cause(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    key = next(key for key in world.archive.stored if key.startswith(layout.LINES))
    world.archive.stored[key] = b"damaged"
    assert world.seal_day().completed > 0
    (skipped,) = logged(caplog, "archive_object_skipped")
    assert (skipped["object"], skipped["reason"].partition(":")[0]) == (key, "bad_object")


def test_a_concurrent_run_that_locked_its_manifest_first_is_logged(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(call: Call) -> None:
        if call.name == "vault.put":
            raise Transient("stopped")

    world.vault.seam.after = stop
    with pytest.raises(Transient):
        world.seal_day()
    world.vault.seam.after = lambda _: None
    assert world.seal(world.config, DAY).entries == 11
    (found,) = logged(caplog, "manifest_already_locked")
    assert (found["cluster"], found["day"]) == ("train-a", DAY)


def test_an_anchor_that_another_run_stored_first_is_returned_and_logged(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    def store_first(call: Call) -> None:
        if call.name == "vault.put":
            world.vault.seam.before = lambda _: None
            world.anchor(world.config)

    world.vault.seam.before = store_first
    anchor = world.anchor(world.config)
    (found,) = logged(caplog, "anchor_already_stored")
    assert (found["cluster"], found["anchor"]) == ("train-a", anchor.key)


def test_of_two_anchors_of_an_hour_the_stored_one_counts_although_the_other_has_later_entries(
    world: ArchiveWorld,
) -> None:
    stored: list[bytes] = []

    def store_another(call: Call) -> None:
        if call.name == "vault.put":
            world.vault.seam.before = lambda _: None
            world.note(N1, "recorded between the two reads of the streams")
            world.anchor(world.config)
            stored.extend(world.vault.stored.values())

    world.vault.seam.before = store_another
    anchor = world.anchor(world.config)
    assert [anchor] == [read_anchor(anchor.key, body) for body in stored]


def test_sealed_entries_that_left_the_table_are_logged_once_a_stream(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.seal_day()
    manifest = Manifest.read(world.archive.stored[layout.manifest_key("train-a", DAY)])
    world.table.write(Delete(keys.stream_anchor(keys.node_partition(N1))))
    for sequence in (1, 2):
        world.table.write(Delete(world.entry_key(sequence)))
    assert expire_entries(world.table, world.clock, KEEP, manifest) == 5
    (skipped,) = logged(caplog, "expiry_skipped")
    assert (skipped["stream"], skipped["reason"].split()[0]) == ("train-a/n-1", "2")


def test_a_seal_that_a_later_one_overtook_is_logged(world: ArchiveWorld, caplog: pytest.LogCaptureFixture) -> None:
    world.seal_day()
    manifest = Manifest.read(world.archive.stored[layout.manifest_key("train-a", DAY)])
    anchor = keys.stream_anchor(keys.node_partition(N1))
    sealed = world.table.get(anchor)
    assert sealed is not None
    world.table.write(Delete(anchor))

    def seal_later_day(call: Call) -> None:
        if call.name == "table.write" and call.argument.key == anchor:
            world.table.seam.before = lambda _: None
            world.note(N1, "the next day")
            world.publish()
            world.pass_time(days=1)
            world.seal(world.config, "2026-02-04")

    world.table.seam.before = seal_later_day
    expire_entries(world.table, world.clock, timedelta(days=1), manifest)
    (found,) = logged(caplog, "seal_not_moved")
    assert (found["stream"], found["day"]) == ("train-a/n-1", DAY)


def test_a_cluster_without_a_registration_is_skipped_with_a_cause(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.table.write(Delete(keys.cluster_config("train-a")))
    assert world.archive_schedule.run().roots == {}
    (skipped,) = logged(caplog, "cluster_not_archived")
    assert skipped["cluster"] == "train-a"


def test_a_run_that_lost_every_conflict_is_postponed_with_a_cause(
    world: ArchiveWorld, caplog: pytest.LogCaptureFixture
) -> None:
    def throttle(call: Call) -> None:
        if call.name == "vault.put":
            raise Transient("throttled")

    world.vault.seam.before = throttle
    assert world.archive_schedule.run().late == ["train-a: throttled"]
    (postponed,) = logged(caplog, "archive_run_postponed")
    assert (postponed["cluster"], postponed["reason"]) == ("train-a", "throttled")
