"""After the table is restored from a backup, a new epoch begins and no event id is used twice."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, ClusterStatus, Isolation
from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.writes import Delete, Item, Put
from faultbridge.model.values import replace
from faultbridge.record.archive.verification import ReadArchive
from faultbridge.record.recover import RecoverTable
from faultbridge.record.timeline import Timeline, TimelineQuery
from tests.archive.world import N1, ArchiveWorld
from tests.races import run_before_write, writes_to
from tests.sim.fakes import Call, FakeTable
from tests.sim.fakes.objects import FakeVault

N2 = NodeKey("train-a", "n-2")


def anchored_world() -> ArchiveWorld:
    world = ArchiveWorld()
    world.record_history()
    world.anchor(world.config)
    return world


def backup(world: ArchiveWorld) -> list[Item]:
    return list(world.table.items())


def restored_from(world: ArchiveWorld, backup_items: list[Item]) -> ArchiveWorld:
    """Return the same stack on a table with the backup's items; archive, vault and clock keep their state."""
    restored = ArchiveWorld()
    restored.clock.advance_to(world.clock.now())
    restored.table = FakeTable(restored.clock)
    for item in backup_items:
        restored.table.write(Put(item))
    restored.archive, restored.vault = world.archive, world.vault
    for name in ("append", "registration", "rollup", "anchor", "seal", "archive_schedule"):
        setattr(restored, name, _with_ports_of(restored, getattr(restored, name)))
    restored._published = len(restored.table.stream)
    return restored


def _with_ports_of(world: ArchiveWorld, service: Any) -> Any:
    replacements = {"table": world.table, "archive": world.archive, "vault": world.vault}
    replacements |= {"append": world.append, "anchor": world.anchor, "seal": world.seal}
    names = set(service.__struct_fields__)
    return replace(service, **{name: value for name, value in replacements.items() if name in names})


def recover(world: ArchiveWorld) -> RecoverTable:
    return RecoverTable(world.table, world.vault, world.clock, world.append, world.stack)


def event_ids(*worlds: ArchiveWorld) -> list[str]:
    lines = [line for world in worlds for line in Timeline(world.table).entries(TimelineQuery("train-a"))]
    return list({line.hash: line.event.metadata.event_id for line in lines}.values())


def test_a_cordon_that_the_restored_table_has_as_confirmed_is_requested_again() -> None:
    world = anchored_world()

    def cordoned(state: NodeState, _: datetime) -> Transition:
        return Transition(replace(state, isolation=Isolation.CONFIRMED))

    world.append(N1, cordoned, actor=Actor.ISOLATE)
    restored = restored_from(world, backup(world))
    recover(restored).recover()
    assert [restored.append.read(key).isolation for key in (N1, N2)] == [Isolation.REQUESTED, Isolation.NONE]


def test_after_recover_no_event_id_is_used_again() -> None:
    world = anchored_world()
    backup_items = backup(world)
    world.note(N1, "lost with the table")
    restored = restored_from(world, backup_items)
    recovered = recover(restored).recover()
    assert (recovered.epoch, recovered.streams, recovered.clusters) == (2, 3, ["train-a"])
    restored.note(N1, "after the restore")
    ids = event_ids(world, restored)
    assert len(ids) == len(set(ids))


def test_without_recover_an_event_id_would_be_used_again() -> None:
    world = anchored_world()
    backup_items = backup(world)
    world.note(N1, "lost with the table")
    restored = restored_from(world, backup_items)
    restored.note(N1, "after the restore")
    ids = event_ids(world, restored)
    assert len(ids) == len(set(ids)) + 1


def test_a_second_restore_of_the_same_backup_begins_another_epoch() -> None:
    world = anchored_world()
    backup_items = backup(world)
    first = restored_from(world, backup_items)
    assert recover(first).recover().epoch == 2
    first.note(N1, "seen by customers")
    second = restored_from(first, backup_items)
    assert recover(second).recover().epoch == 3
    second.note(N1, "another")
    ids = event_ids(world, first, second)
    assert len(ids) == len(set(ids))


def test_an_epoch_that_a_stream_already_has_is_not_claimed_again_in_a_vault_without_its_claim() -> None:
    world = anchored_world()
    first = recover(world).recover()
    world.vault = FakeVault()
    second = recover(world).recover()
    assert (second.epoch, second.already) == (first.epoch + 1, 0)


def test_each_recovery_of_a_stack_without_clusters_claims_a_number_of_its_own() -> None:
    world = ArchiveWorld()
    world.table = FakeTable(world.clock)
    found = [recover(world).recover() for _ in range(2)]
    assert [(one.epoch, one.streams, one.clusters) for one in found] == [(2, 0, []), (3, 0, [])]


def test_the_largest_epoch_number_is_used_and_none_after_it() -> None:
    restored = restored_from(anchored_world(), backup(anchored_world()))
    restored.vault.put(f"{layout.EPOCHS}9998.json", b"{}")
    assert recover(restored).recover().epoch == 9999
    with pytest.raises(Rejected, match="no_epoch_left"):
        recover(restored).recover()


@pytest.mark.parametrize("anchor", [False, True])
def test_a_recovered_record_has_no_breaks_and_names_its_last_restored_entry(anchor: bool) -> None:
    world = anchored_world()
    backup_items = backup(world)
    world.note(N1, "lost with the table")
    world.pass_time(hours=1)
    world.anchor(world.config)
    restored = restored_from(world, backup_items)
    recover(restored).recover(by="arn:aws:iam::1:user/a")
    assert restored.verify(anchor=anchor).breaks == []
    (note,) = [
        one
        for one in Timeline(restored.table).entries(TimelineQuery("train-a", "n-1"))
        if one.event.metadata.epoch == 2
    ]
    assert "entry 5 are in the archive only" in note.event.data.text
    assert note.event.data.operator == "arn:aws:iam::1:user/a"


def restored_without_the_last_anchored_note() -> ArchiveWorld:
    world = anchored_world()
    backup_items = backup(world)
    world.note(N1, "to be hidden")
    world.pass_time(hours=1)
    world.anchor(world.config)
    return restored_from(world, backup_items)


def test_a_restore_without_recover_is_reported_with_the_anchors() -> None:
    tampered = restored_without_the_last_anchored_note()
    breaks = tampered.verify(anchor=True).breaks
    assert [(one.stream, one.sequence) for one in breaks] == [("train-a/n-1", 6)]


def test_a_forged_recovery_without_a_claim_in_the_vault_is_reported() -> None:
    tampered = restored_without_the_last_anchored_note()
    RecoverTable(tampered.table, FakeVault(), tampered.clock, tampered.append, tampered.stack).recover()
    breaks = tampered.verify(anchor=True).breaks
    assert [(one.stream, one.epoch, one.sequence) for one in breaks] == [("train-a/n-1", 1, 6)]


def test_the_archive_still_contains_entries_that_the_table_lost() -> None:
    world = anchored_world()
    backup_items = backup(world)
    world.note(N1, "lost with the table")
    world.publish()
    restored = restored_from(world, backup_items)
    recover(restored).recover()
    restored.publish()
    table = Timeline(restored.table).entries(TimelineQuery("train-a", "n-1"))
    texts = [
        getattr(line.event.data, "text", None)
        for line in ReadArchive(restored.archive).entries(TimelineQuery("train-a", "n-1"), table)
    ]
    assert "lost with the table" in texts
    assert restored.verify_archive(anchor=True).breaks == []


def test_an_interrupted_recover_is_finished_with_the_same_epoch() -> None:
    world = anchored_world()
    restored = restored_from(world, backup(world))
    calls = [0]

    def stop(call: Call) -> None:
        calls[0] += call.name == "table.transact"
        if calls[0] == 2:
            raise Transient("stopped")

    restored.table.seam.after = stop
    with pytest.raises(Transient):
        recover(restored).recover()
    restored.table.seam.after = lambda call: None
    recovered = recover(restored).recover(2)
    assert (recovered.epoch, recovered.streams, recovered.already) == (2, 1, 2)
    with pytest.raises(Rejected, match="unknown_epoch"):
        recover(restored).recover(7)
    assert restored.append.read(N2).head.epoch == 2


def test_recover_does_not_overwrite_what_a_cluster_recorded_meanwhile() -> None:
    restored = restored_from(anchored_world(), backup(anchored_world()))
    key = keys.cluster_state("train-a")

    def record_more() -> None:
        restored.observe_faults(N1)
        restored.rollup.update("train-a")

    run_before_write(restored.table.seam, writes_to(key), record_more)
    with pytest.raises(Conflict):
        recover(restored).recover()
    current = items.read_cluster("train-a", restored.table.get(key))
    assert (current.status, current.head.epoch) == (ClusterStatus.DEGRADED, 1)
    recovered = recover(restored).recover(2)
    assert (recovered.epoch, recovered.streams, recovered.already) == (2, 3, 0)


def test_recover_does_not_overwrite_an_existing_entry() -> None:
    restored = restored_from(anchored_world(), backup(anchored_world()))
    key = keys.entry(keys.cluster_partition("train-a"), 2, 1)
    restored.table.write(Put(items.item(key, restored.clock.now(), {"body": "another writer's"})))
    with pytest.raises(Conflict):
        recover(restored).recover()
    entry = restored.table.get(key)
    assert entry is not None
    assert entry["body"] == "another writer's"


def test_recover_stops_at_a_cluster_that_is_listed_but_not_registered() -> None:
    restored = restored_from(anchored_world(), backup(anchored_world()))
    restored.table.write(Delete(keys.cluster_config("train-a")))
    with pytest.raises(Conflict, match="listed and not registered"):
        recover(restored).recover()
