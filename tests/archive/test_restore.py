"""The table comes back from a backup: a new epoch begins, and no event id is ever given twice."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from faultbridge.archive.read import ReadArchive
from faultbridge.domain.clusters import ClusterStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Conflict, Rejected, Transient
from faultbridge.ledger.recover import RecoverTable
from faultbridge.ledger.timeline import Timeline, Wanted
from faultbridge.simulation.fakes import Call, FakeTable
from faultbridge.simulation.fakes.objects import FakeVault
from faultbridge.storage import items, keys
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.writes import Delete, Item, Put
from tests.archive.world import N1, Kept
from tests.races import run_before_write, writes_to

N2 = NodeKey("train-a", "n-2")


def kept() -> Kept:
    world = Kept()
    world.story()
    world.anchor(world.config)
    return world


def backup(world: Kept) -> list[Item]:
    return list(world.table.items())


def back(world: Kept, saved: list[Item]) -> Kept:
    """The same stack on a table that holds the backup: everything outside the table went on."""
    restored = Kept()
    restored.clock.advance_to(world.clock.now())
    restored.table = FakeTable(restored.clock)
    for item in saved:
        restored.table.write(Put(item))
    restored.archive, restored.vault = world.archive, world.vault
    for name in ("append", "registration", "rollup", "anchor", "seal", "keep_record"):
        setattr(restored, name, _on(getattr(restored, name), restored))
    restored._published = len(restored.table.stream)
    return restored


def _on(service: Any, world: Kept) -> Any:
    known = {"table": world.table, "archive": world.archive, "vault": world.vault}
    known |= {"append": world.append, "anchor": world.anchor, "seal": world.seal}
    names = {field.name for field in fields(service)}
    return replace(service, **{name: value for name, value in known.items() if name in names})


def restore(world: Kept) -> RecoverTable:
    return RecoverTable(world.table, world.vault, world.clock, world.append, world.stack)


def event_ids(*worlds: Kept) -> list[str]:
    lines = [line for world in worlds for line in Timeline(world.table).entries(Wanted("train-a"))]
    return list({line.hash: line.event["metadata"]["event_id"] for line in lines}.values())


def test_after_a_restore_no_event_id_is_given_again() -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "lost with the table")
    restored = back(world, saved)
    done = restore(restored)()
    assert (done.epoch, done.streams) == (2, 3)
    restored.note(N1, "after the restore")
    ids = event_ids(world, restored)
    assert len(ids) == len(set(ids))


def test_without_it_the_same_id_would_be_given_to_another_entry() -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "lost with the table")
    restored = back(world, saved)
    restored.note(N1, "after the restore")
    ids = event_ids(world, restored)
    assert len(ids) == len(set(ids)) + 1


def test_a_second_restore_of_the_same_backup_begins_another_epoch() -> None:
    world = kept()
    saved = backup(world)
    first = back(world, saved)
    assert restore(first)().epoch == 2
    first.note(N1, "seen by customers")
    second = back(first, saved)
    assert restore(second)().epoch == 3
    second.note(N1, "another")
    ids = event_ids(world, first, second)
    assert len(ids) == len(set(ids))


def test_the_last_epoch_that_keys_can_carry_is_used_and_none_after_it() -> None:
    restored = back(kept(), backup(kept()))
    restored.vault.put(f"{layout.EPOCHS}9998.json", b"{}")
    assert restore(restored)().epoch == 9999
    with pytest.raises(Rejected, match="no_epoch_left"):
        restore(restored)()


@pytest.mark.parametrize("anchor", [False, True])
def test_a_restored_record_is_whole_and_says_where_it_was_cut(anchor: bool) -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "lost with the table")
    world.pass_time(hours=1)
    world.anchor(world.config)
    restored = back(world, saved)
    restore(restored)(by="arn:aws:iam::1:user/a")
    assert restored.verify(anchor=anchor).breaks == []
    (note,) = [
        one for one in Timeline(restored.table).entries(Wanted("train-a", "n-1")) if one.event["metadata"]["epoch"] == 2
    ]
    assert "entry 5 is in the archive only" in note.event["data"]["text"]
    assert note.event["data"]["operator"] == "arn:aws:iam::1:user/a"


def test_a_cut_that_nobody_restored_is_named_by_the_anchor() -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "to be hidden")
    world.pass_time(hours=1)
    world.anchor(world.config)
    hidden = back(world, saved)
    breaks = hidden.verify(anchor=True).breaks
    assert [(one.stream, one.sequence) for one in breaks] == [("train-a/n-1", 6)]


def test_a_cut_that_is_made_to_look_like_a_restore_is_named_by_the_anchor() -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "to be hidden")
    world.pass_time(hours=1)
    world.anchor(world.config)
    hidden = back(world, saved)
    RecoverTable(hidden.table, FakeVault(), hidden.clock, hidden.append, hidden.stack)()
    breaks = hidden.verify(anchor=True).breaks
    assert [(one.stream, one.epoch, one.sequence) for one in breaks] == [("train-a/n-1", 1, 6)]


def test_the_archive_still_tells_what_the_table_lost() -> None:
    world = kept()
    saved = backup(world)
    world.note(N1, "lost with the table")
    world.publish()
    restored = back(world, saved)
    restore(restored)()
    restored.publish()
    table = Timeline(restored.table).entries(Wanted("train-a", "n-1"))
    told = [
        line.event["data"].get("text")
        for line in ReadArchive(restored.archive).entries(Wanted("train-a", "n-1"), table)
    ]
    assert "lost with the table" in told
    assert restored.verify_archive(anchor=True).breaks == []


def test_a_restore_that_stops_is_finished_under_the_same_epoch() -> None:
    world = kept()
    restored = back(world, backup(world))
    calls = [0]

    def stop(call: Call) -> None:
        calls[0] += call.name == "table.transact"
        if calls[0] == 2:
            raise Transient("stopped")

    restored.table.seam.after = stop
    with pytest.raises(Transient):
        restore(restored)()
    restored.table.seam.after = lambda call: None
    done = restore(restored)(2)
    assert (done.epoch, done.streams, done.already) == (2, 1, 2)
    with pytest.raises(Rejected, match="unknown_epoch"):
        restore(restored)(7)
    assert restored.append.read(N2).head.epoch == 2


def test_a_restore_does_not_write_over_what_a_cluster_recorded_meanwhile() -> None:
    restored = back(kept(), backup(kept()))
    place = keys.cluster_state("train-a")

    def goes_on() -> None:
        restored.happens(N1)
        restored.rollup("train-a")

    run_before_write(restored.table.seam, writes_to(place), goes_on)
    with pytest.raises(Conflict):
        restore(restored)()
    went_on = items.read_cluster("train-a", restored.table.get(place))
    assert (went_on.status, went_on.head.epoch) == (ClusterStatus.DEGRADED, 1)
    done = restore(restored)(2)
    assert (done.epoch, done.streams, done.already) == (2, 3, 0)


def test_a_restore_does_not_write_over_an_entry_of_a_record_whose_state_was_set_back() -> None:
    restored = back(kept(), backup(kept()))
    place = keys.entry(keys.cluster_partition("train-a"), 2, 1)
    restored.table.write(Put(items.item(place, restored.clock.now(), {"body": "somebody's"})))
    with pytest.raises(Conflict):
        restore(restored)()
    entry = restored.table.get(place)
    assert entry is not None
    assert entry["body"] == "somebody's"


def test_a_cluster_that_is_listed_and_not_registered_stops_a_restore() -> None:
    restored = back(kept(), backup(kept()))
    restored.table.write(Delete(keys.cluster_config("train-a")))
    with pytest.raises(Conflict, match="listed and not registered"):
        restore(restored)()
