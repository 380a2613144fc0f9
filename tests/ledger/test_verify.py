"""A stream is whole, or the place is named from which it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.ledger.verify import Break, BreakKind, Verify
from faultbridge.storage import keys
from faultbridge.storage.writes import Delete, Key, Put, Update
from tests.ingest.world import LedgerFixture

N1 = NodeKey("train-a", "n-1")


def story() -> tuple[LedgerFixture, Verify]:
    world = LedgerFixture()
    for name in ("n-1", "n-2"):
        key = world.register_node(name)
        for number in range(4):
            world.pass_time(minutes=1)
            world.note(key, f"note {number}")
    world.rollup("train-a")
    return world, Verify(world.table, world.stack)


def place(sequence: int) -> Key:
    return keys.entry(keys.node_partition(N1), 1, sequence)


def breaks(verify: Verify) -> list[tuple[int, BreakKind]]:
    found = verify("train-a").breaks
    assert {one.stream for one in found} <= {"train-a/n-1"}
    return [(one.sequence, one.kind) for one in found]


def change_body(world: LedgerFixture, sequence: int, **data: Any) -> None:
    item = world.table.get(place(sequence))
    assert item is not None
    body = json.loads(str(item["body"]))
    body["data"] |= data
    changed = json.dumps(body, sort_keys=True, separators=(",", ":"))
    world.table.write(Update(place(sequence), set={("body",): changed}))


@pytest.mark.parametrize("page_size", [None, 2])
def test_what_was_only_appended_is_whole(page_size: int | None) -> None:
    world, verify = story()
    world.table.page_size = page_size
    verified = verify("train-a")
    assert verified.breaks == []
    assert (verified.streams, verified.entries) == (3, 11)


def test_one_node_is_verified_alone() -> None:
    _, verify = story()
    verified = verify("train-a", "n-1")
    assert (verified.streams, verified.entries, verified.whole) == (1, 5, True)


def test_a_changed_entry_is_named() -> None:
    world, verify = story()
    change_body(world, 3, text="nothing happened")
    assert breaks(verify) == [(3, BreakKind.HASH)]


def test_a_deleted_entry_is_named() -> None:
    world, verify = story()
    world.table.write(Delete(place(3)))
    assert breaks(verify) == [(3, BreakKind.GAP)]


def test_a_cut_end_is_named() -> None:
    world, verify = story()
    world.table.write(Delete(place(5)))
    assert breaks(verify) == [(5, BreakKind.HEAD)]


def test_a_stream_that_is_gone_is_named() -> None:
    world, verify = story()
    for sequence in range(1, 6):
        world.table.write(Delete(place(sequence)))
    assert breaks(verify) == [(1, BreakKind.HEAD)]


def test_an_entry_put_in_at_the_end_is_named() -> None:
    world, verify = story()
    forged = world.table.get(place(5))
    assert forged is not None
    world.table.write(Put({**forged, "sk": place(6).sk, "sequence": 6}))
    assert (6, BreakKind.HEAD) in breaks(verify)


def test_two_entries_that_changed_places_are_named() -> None:
    world, verify = story()
    third, fourth = world.table.get(place(3)), world.table.get(place(4))
    assert third is not None
    assert fourth is not None
    world.table.write(Put({**third, "body": fourth["body"], "hash": fourth["hash"]}))
    world.table.write(Put({**fourth, "body": third["body"], "hash": third["hash"]}))
    assert {sequence for sequence, _ in breaks(verify)} == {3, 4, 5}


def test_a_state_that_says_otherwise_is_named() -> None:
    world, verify = story()
    world.table.write(Update(keys.node_state(N1), set={("state", "head", "hash"): "0" * 64}))
    assert breaks(verify) == [(5, BreakKind.HEAD)]


def test_another_stack_does_not_vouch_for_a_stream() -> None:
    world, verify = story()
    other = Verify(world.table, type(verify.stack)("another", "faultbridge"))
    assert (1, BreakKind.HASH) in [(one.sequence, one.kind) for one in other("train-a", "n-1").breaks]


def test_a_body_that_is_no_event_is_named_and_breaks_nothing_else() -> None:
    world, verify = story()
    world.table.write(Update(place(2), set={("body",): "[]"}))
    assert breaks(verify) == [(2, BreakKind.HASH), (2, BreakKind.PLACE)]


def test_entries_that_are_written_while_we_look_are_no_breaks() -> None:
    world, verify = story()
    inside = iter([True])

    def note_around(call: Any) -> None:
        if call.argument != keys.node_state(N1) or not next(inside, False):
            return
        world.note(N1, "before the head was read")
        world.table.seam.after = note_behind

    def note_behind(_call: Any) -> None:
        world.table.seam.after = lambda _: None
        world.note(N1, "after it was read")

    world.table.seam.before = note_around
    verified = verify("train-a", "n-1")
    assert (verified.breaks, next(inside, None)) == ([], None)


def test_a_break_says_where_and_what() -> None:
    world, verify = story()
    world.table.write(Delete(place(3)))
    (found,) = verify("train-a").breaks
    assert found == Break("train-a/n-1", 1, 3, BreakKind.GAP, "the entry after 2 is 4")


@pytest.mark.parametrize(("cluster", "node", "reason"), [("other", None, "cluster"), ("train-a", "other", "node")])
def test_what_does_not_exist_cannot_be_verified(cluster: str, node: str | None, reason: str) -> None:
    _, verify = story()
    with pytest.raises(Rejected, match=f"unknown_{reason}"):
        verify(cluster, node)
