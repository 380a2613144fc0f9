"""Publish: every entry reaches the bus at least once, and nobody who counts misses one."""

from __future__ import annotations

import json

import pytest

from faultbridge.errors import Transient
from faultbridge.events.wire import body_of
from faultbridge.ledger.publish import resources
from faultbridge.ports import FailedEvent
from faultbridge.storage import keys
from faultbridge.storage.writes import Delete, Key
from tests.builders import KEY, STACK_ID
from tests.world import XID_79, World


def recorded() -> tuple[World, list[dict]]:
    world = World()
    world.outcomes(world.message(XID_79))
    return world, list(world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items)


def waiting(world: World) -> list[Key]:
    found = world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items
    return [Key(str(item["pk"]), str(item["sk"])) for item in found if "gsi4pk" in item]


def test_a_published_entry_waits_no_longer_and_its_event_holds_its_body():
    world, entries = recorded()
    assert world.app.ledger.publish(entries) == len(entries)
    assert waiting(world) == []
    assert [body_of(event.detail) for event in world.ports.bus.accepted] == [entry["body"] for entry in entries]


def test_evidence_travels_with_the_event_and_not_with_the_body():
    world, entries = recorded()
    world.app.ledger.publish(entries)
    detected = next(event for event in world.ports.bus.accepted if event.detail_type == "Node Fault Detected")
    assert json.loads(detected.detail)["data"]["evidence"].startswith("NVRM: Xid")


def test_an_event_names_the_instance_that_it_is_about():
    world, entries = recorded()
    world.app.ledger.publish(entries)
    instance = world.node().incarnation.instance_id
    expected = f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}"
    assert {event.resources for event in world.ports.bus.accepted} == {(expected,)}


def test_what_the_bus_did_not_take_waits_and_the_stream_is_told():
    world, entries = recorded()
    last = str(entries[-1]["event_id"])
    world.ports.bus.refuse = lambda event: (
        FailedEvent(last, "busy", permanent=False) if event.event_id == last else None
    )
    with pytest.raises(Transient, match="busy"):
        world.app.ledger.publish(entries)
    assert waiting(world) == [Key(str(entries[-1]["pk"]), str(entries[-1]["sk"]))]


def test_what_the_bus_will_never_take_keeps_its_place_as_a_stub():
    world, entries = recorded()
    whole = len(str(entries[0]["body"])) // 2
    world.ports.bus.refuse = lambda event: (
        FailedEvent(event.event_id, "too large", permanent=True) if len(event.detail) > whole + 700 else None
    )
    world.app.ledger.publish(entries)
    assert set(world.ports.bus.ids) == {entry["event_id"] for entry in entries}
    assert waiting(world) == []


def test_publishing_again_repeats_the_same_ids():
    world, entries = recorded()
    world.app.ledger.publish(entries)
    world.app.ledger.publish(entries)
    assert sorted(world.ports.bus.ids) == sorted([str(entry["event_id"]) for entry in entries] * 2)


def test_an_entry_that_is_gone_meanwhile_does_not_let_the_others_wait():
    world, entries = recorded()
    gone = Key(str(entries[0]["pk"]), str(entries[0]["sk"]))
    world.ports.table.write(Delete(gone))
    assert world.app.ledger.publish(entries) == len(entries)
    assert waiting(world) == []


def test_the_sweep_publishes_only_what_still_waits():
    world, entries = recorded()
    places = [Key(str(entry["pk"]), str(entry["sk"])) for entry in entries]
    assert world.app.ledger.publish.from_table(places) == len(entries)
    assert world.app.ledger.publish.from_table(places) == 0


@pytest.mark.parametrize(("stack_id", "instance"), [("no-arn", "i-1"), (STACK_ID, None), (STACK_ID, "")])
def test_what_is_not_known_is_not_named(stack_id, instance):
    assert resources(stack_id, instance) == ()
