"""Verify names the first entry of every stream that is missing, added or changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete, Key, Put, Update
from faultbridge.record.verify import AnchoredHashes, Break, BreakKind, Verify
from tests.builders import change_stored_head, fault
from tests.ingest.world import LedgerFixture
from tests.ledger.builders import N1, recorded_history


def entry_key(sequence: int) -> Key:
    return keys.entry(keys.node_partition(N1), 1, sequence)


def breaks(verify: Verify) -> list[tuple[int, BreakKind]]:
    found = verify("train-a").breaks
    assert {one.stream for one in found} <= {"train-a/n-1"}
    return [(one.sequence, one.kind) for one in found]


def change_body(world: LedgerFixture, sequence: int, **data: Any) -> None:
    item = world.table.get(entry_key(sequence))
    assert item is not None
    body = json.loads(str(item["body"]))
    body["data"] |= data
    changed = json.dumps(body, sort_keys=True, separators=(",", ":"))
    world.table.write(Update(entry_key(sequence), set={("body",): changed}))


@pytest.mark.parametrize("page_size", [None, 2])
def test_an_untouched_record_has_no_breaks(page_size: int | None) -> None:
    world, verify = recorded_history()
    world.table.page_size = page_size
    verified = verify("train-a")
    assert verified.breaks == []
    assert (verified.streams, verified.entries) == (3, 11)


def test_one_node_can_be_verified_alone() -> None:
    _, verify = recorded_history()
    verified = verify("train-a", "n-1")
    assert (verified.streams, verified.entries, verified.whole) == (1, 5, True)


def test_a_changed_entry_is_a_break() -> None:
    world, verify = recorded_history()
    change_body(world, 3, text="nothing happened")
    assert breaks(verify) == [(3, BreakKind.HASH)]


def test_a_deleted_entry_is_a_break() -> None:
    world, verify = recorded_history()
    world.table.write(Delete(entry_key(3)))
    assert breaks(verify) == [(3, BreakKind.GAP)]


def test_a_deleted_last_entry_is_a_break() -> None:
    world, verify = recorded_history()
    world.table.write(Delete(entry_key(5)))
    assert breaks(verify) == [(5, BreakKind.HEAD)]


def test_a_deleted_stream_is_a_break() -> None:
    world, verify = recorded_history()
    for sequence in range(1, 6):
        world.table.write(Delete(entry_key(sequence)))
    assert breaks(verify) == [(1, BreakKind.HEAD)]
    assert verify("train-a").breaks[0].detail == "the state names 1/5 as the last entry, found 0/0"


def test_an_entry_added_at_the_end_is_a_break() -> None:
    world, verify = recorded_history()
    forged = world.table.get(entry_key(5))
    assert forged is not None
    world.table.write(Put({**forged, "sk": entry_key(6).sk, "sequence": 6}))
    assert (6, BreakKind.HEAD) in breaks(verify)


def test_two_swapped_entries_are_breaks() -> None:
    world, verify = recorded_history()
    third, fourth = world.table.get(entry_key(3)), world.table.get(entry_key(4))
    assert third is not None
    assert fourth is not None
    world.table.write(Put({**third, "body": fourth["body"], "hash": fourth["hash"]}))
    world.table.write(Put({**fourth, "body": third["body"], "hash": third["hash"]}))
    assert {sequence for sequence, _ in breaks(verify)} == {3, 4, 5}


@pytest.mark.parametrize("change", [{"hash": "0" * 64}, {"event_id": "00000000-0000-0000-0000-000000000000"}])
def test_a_state_with_another_last_hash_or_event_id_is_a_break(change: dict[str, str]) -> None:
    world, verify = recorded_history()
    change_stored_head(world.table, N1, **change)
    assert breaks(verify) == [(5, BreakKind.HEAD)]


def test_the_stream_of_another_stack_has_a_break() -> None:
    world, verify = recorded_history()
    other = Verify(world.table, type(verify.stack)("another", "faultbridge"))
    assert (1, BreakKind.HASH) in [(one.sequence, one.kind) for one in other("train-a", "n-1").breaks]


def test_a_body_that_is_not_an_event_is_reported_only_for_its_own_entry() -> None:
    world, verify = recorded_history()
    world.table.write(Update(entry_key(2), set={("body",): "[]"}))
    assert breaks(verify) == [(2, BreakKind.HASH), (2, BreakKind.PLACE)]


def test_a_body_whose_component_is_a_text_is_not_an_event() -> None:
    world, verify = recorded_history()
    change_body(world, 3, component="gpu")
    assert breaks(verify) == [(3, BreakKind.HASH), (3, BreakKind.PLACE)]


def test_a_body_that_states_another_position_is_a_break() -> None:
    world, verify = recorded_history()
    fourth = world.table.get(entry_key(4)) or {}
    world.table.write(Update(entry_key(3), set={("body",): fourth["body"]}))
    (found,) = (one for one in verify("train-a").breaks if one.kind is BreakKind.PLACE)
    assert (found.sequence, found.detail) == (3, "the body holds another sequence, event_id")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("evidence", "all fine, an operator pulled the cable"),
        ("evidence", None),
        ("type", "Node Note Recorded"),
        ("severity", "info"),
        ("recorded_at", "2020-01-01T00:00:00.000Z"),
        ("event_id", "00000000-0000-0000-0000-000000000000"),
        ("gsi1pk", "T#nowhere#0"),
        ("gsi3sk", "0000"),
        ("expires_at", 1),
    ],
)
def test_a_changed_attribute_beside_the_body_is_a_break(attribute: str, value: Any) -> None:
    world, verify = recorded_history()
    world.observe_faults(N1, fault(component=Component(ComponentType.GPU, uuid="GPU-1", serial="1653")))
    (key,) = (Key(i["pk"], i["sk"]) for i in world.table.items() if i.get("type") == EntryType.FAULT_DETECTED)
    change = Update(key, remove=((attribute,),)) if value is None else Update(key, set={(attribute,): value})
    world.table.write(change)
    (found,) = verify("train-a").breaks
    assert (found.sequence, found.kind) == (6, BreakKind.ATTRIBUTE)
    assert found.detail.endswith(f": {attribute}")


def test_a_node_in_the_node_list_without_a_state_is_a_break() -> None:
    world, verify = recorded_history()
    world.table.write(Delete(keys.node_state(N1)))
    assert [one.object for one in verify("train-a").breaks] == ["NODE#train-a#n-1 STATE"]


def test_a_state_that_cannot_be_read_is_one_break_without_a_position() -> None:
    world, verify = recorded_history()
    key = keys.node_state(N1)
    world.table.write(Update(key, set={("state",): "damaged"}))
    (found,) = verify("train-a").breaks
    assert (found.kind, found.object, found.epoch, found.sequence) == (BreakKind.ROW, f"{key.pk} {key.sk}", 0, 0)


def test_a_break_names_its_position_and_detail() -> None:
    world, verify = recorded_history()
    world.table.write(Delete(entry_key(3)))
    assert verify("train-a").breaks == [Break("train-a/n-1", 1, 3, BreakKind.GAP, "the entry after 2 is 4")]


@pytest.mark.parametrize(("cluster", "node", "reason"), [("other", None, "cluster"), ("train-a", "other", "node")])
def test_an_unknown_cluster_or_node_cannot_be_verified(cluster: str, node: str | None, reason: str) -> None:
    _, verify = recorded_history()
    with pytest.raises(Rejected, match=f"unknown_{reason}"):
        verify(cluster, node)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        (keys.cluster_config("train-a"), {("version",): 7}),
        (keys.stream_anchor(keys.node_partition(N1)), {("expires_to",): "damaged"}),
    ],
    ids=["registration", "seal"],
)
def test_a_damaged_registration_or_seal_is_one_break_that_names_it(key: Key, change: dict[Any, Any]) -> None:
    world, verify = recorded_history()
    world.table.write(Update(key, set=change))
    (found,) = verify("train-a").breaks
    assert (found.kind, found.object) == (BreakKind.ROW, f"{key.pk} {key.sk}")


def test_a_seal_before_the_first_entry_is_a_break_if_the_hashes_are_anchored() -> None:
    world, verify = recorded_history()
    anchor, place = keys.stream_anchor(keys.node_partition(N1)), "0000#000000000001"
    seal = {"epoch": 0, "seq": 1, "hash": "", "expires_to": place, "place": place}
    world.table.write(Put({"pk": anchor.pk, "sk": anchor.sk, "schema": 1, **seal}))
    (found,) = verify("train-a", "n-1", AnchoredHashes()).breaks
    assert (found.epoch, found.sequence, found.kind) == (0, 1, BreakKind.ANCHOR)


def test_the_stream_of_a_cluster_can_be_verified_alone() -> None:
    world, verify = recorded_history()
    world.table.write(Delete(entry_key(3)))
    verified = verify.cluster_stream("train-a")
    assert (verified.streams, verified.entries, verified.whole) == (1, 1, True)
    world.table.write(Delete(keys.entry(keys.cluster_partition("train-a"), 1, 1)))
    assert [(one.stream, one.kind) for one in verify.cluster_stream("train-a").breaks] == [("train-a", BreakKind.HEAD)]
