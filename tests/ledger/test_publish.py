"""Publish sends every entry to the bus at least once, without gaps in the sequence numbers."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.events.wire import body_of
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete, Key, Update
from faultbridge.record.ports.messaging import FailedEvent
from faultbridge.record.publish import Publish, resources
from faultbridge.serve.entrypoints.publish import wire_publish
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY, STACK_ID
from tests.world import XID_79, World


def recorded() -> tuple[World, list[dict]]:
    world = World()
    world.outcomes(world.message(XID_79))
    return world, list(world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items)


def unpublished(world: World) -> list[Key]:
    found = world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items
    return [Key(str(item["pk"]), str(item["sk"])) for item in found if "gsi4pk" in item]


def test_a_published_entry_loses_its_mark_and_its_event_contains_its_body():
    world, entries = recorded()
    assert wire_publish(world.app).publish(entries) == len(entries)
    assert unpublished(world) == []
    assert [body_of(event.detail) for event in world.ports.bus.accepted] == [entry["body"] for entry in entries]


def test_evidence_is_in_the_event_and_not_in_the_body():
    world, entries = recorded()
    wire_publish(world.app).publish(entries)
    detected = next(event for event in world.ports.bus.accepted if event.detail_type == "Node Fault Detected")
    assert json.loads(detected.detail)["data"]["evidence"].startswith("NVRM: Xid")


def test_an_event_names_its_instance_as_a_resource():
    world, entries = recorded()
    wire_publish(world.app).publish(entries)
    instance = world.node().incarnation.instance_id
    expected = f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}"
    assert {event.resources for event in world.ports.bus.accepted} == {(expected,)}


def test_an_event_that_the_bus_refused_stays_unpublished_and_raises_transient(caplog):
    world, entries = recorded()
    last = str(entries[-1]["event_id"])
    world.ports.bus.refuse = lambda event: (
        FailedEvent(last, "busy", permanent=False) if event.event_id == last else None
    )
    with pytest.raises(Transient, match="busy"):
        wire_publish(world.app).publish(entries)
    (refused,) = [record for record in caplog.records if record.message == "event_refused"]
    assert (refused.reason, refused.event_id, refused.permanent) == ("busy", last, False)
    assert unpublished(world) == [Key(str(entries[-1]["pk"]), str(entries[-1]["sk"]))]


def test_a_damaged_entry_is_refused_for_now_and_delays_no_other(caplog):
    world, entries = recorded()
    damaged = {name: value for name, value in entries[0].items() if name != "body"}
    with pytest.raises(Transient, match="KeyError"):
        wire_publish(world.app).publish([damaged, *entries[1:]])
    refused = [record for record in caplog.records if "refused" in record.message]
    assert [(one.message, one.event_id, one.permanent) for one in refused] == [
        ("event_refused", damaged["event_id"], False)
    ]
    assert unpublished(world) == [Key(str(damaged["pk"]), str(damaged["sk"]))]


def test_an_event_that_the_bus_never_accepts_is_sent_without_its_data(caplog):
    world, entries = recorded()
    half = len(str(entries[0]["body"])) // 2
    world.ports.bus.refuse = lambda event: (
        FailedEvent(event.event_id, "too large", permanent=True) if len(event.detail) > half + 700 else None
    )
    wire_publish(world.app).publish(entries)
    assert set(world.ports.bus.ids) == {entry["event_id"] for entry in entries}
    refused = [record for record in caplog.records if record.message == "event_refused"]
    assert {(record.reason, record.permanent) for record in refused} == {("too large", True)}
    assert unpublished(world) == []


def test_an_event_without_its_data_that_the_bus_refuses_for_now_stays_unpublished(caplog):
    world, entries = recorded()
    first = str(entries[0]["event_id"])
    refusals = iter([FailedEvent(first, "too large", permanent=True), FailedEvent(first, "busy", permanent=False)])
    world.ports.bus.refuse = lambda event: next(refusals) if event.event_id == first else None
    with pytest.raises(Transient, match="busy"):
        wire_publish(world.app).publish(entries)
    refused = [(one.message, one.reason) for one in caplog.records if "refused" in one.message]
    assert refused == [("event_refused", "too large"), ("event_stub_refused", "busy")]
    assert unpublished(world) == [Key(str(entries[0]["pk"]), str(entries[0]["sk"]))]


def test_publishing_again_sends_the_same_event_ids():
    world, entries = recorded()
    wire_publish(world.app).publish(entries)
    wire_publish(world.app).publish(entries)
    assert sorted(world.ports.bus.ids) == sorted([str(entry["event_id"]) for entry in entries] * 2)


def test_an_entry_that_expired_meanwhile_does_not_delay_the_others(caplog):
    caplog.set_level(logging.INFO)
    world, entries = recorded()
    expired = Key(str(entries[0]["pk"]), str(entries[0]["sk"]))
    world.ports.table.write(Delete(expired))
    assert wire_publish(world.app).publish(entries) == len(entries)
    (skipped,) = [record for record in caplog.records if record.message == "published_mark_skipped"]
    assert (skipped.entry_pk, skipped.entry_sk) == expired
    assert unpublished(world) == []


def test_the_sweep_publishes_only_unpublished_entries():
    world, entries = recorded()
    entry_keys = [Key(str(entry["pk"]), str(entry["sk"])) for entry in entries]
    assert wire_publish(world.app).from_table(entry_keys) == len(entries)
    assert wire_publish(world.app).from_table(entry_keys) == 0


@pytest.mark.parametrize(("stack_id", "instance"), [("no-arn", "i-1"), (STACK_ID, None), (STACK_ID, "")])
def test_an_event_without_known_account_or_instance_names_no_resource(stack_id, instance):
    assert resources(stack_id, instance) == ()


def test_a_hyperpod_copy_that_the_bus_never_accepts_is_dropped_and_logged(caplog):
    world, entries = recorded()
    own_types = {str(entry["type"]) for entry in entries}
    world.ports.bus.refuse = lambda event: (
        None if event.detail_type in own_types else FailedEvent(event.event_id, "too large", permanent=True)
    )
    publish = Publish(world.ports.table, world.ports.bus, STACK_ID, frozenset({KEY.cluster}))
    assert publish.publish(entries) == len(entries)
    refused = [record for record in caplog.records if record.message == "mirror_event_refused"]
    assert {record.reason for record in refused} == {"too large"}
    assert unpublished(world) == []


def test_an_entry_whose_hyperpod_copy_the_bus_refuses_for_now_stays_unpublished():
    world, entries = recorded()
    own_types = {str(entry["type"]) for entry in entries}
    world.ports.bus.refuse = lambda event: (
        None if event.detail_type in own_types else FailedEvent(event.event_id, "busy", permanent=False)
    )
    publish = Publish(world.ports.table, world.ports.bus, STACK_ID, frozenset({KEY.cluster}))
    with pytest.raises(Transient, match="busy"):
        publish.publish(entries)
    assert unpublished(world)


def test_no_hyperpod_copy_is_sent_before_the_event_that_it_copies():
    """A refused event is sent again later, with its copy; a copy sent now would arrive twice."""
    world, entries = recorded()
    own_types = {str(entry["type"]) for entry in entries}
    world.ports.bus.refuse = lambda event: (
        FailedEvent(event.event_id, "busy", permanent=False) if event.detail_type in own_types else None
    )
    publish = Publish(world.ports.table, world.ports.bus, STACK_ID, frozenset({KEY.cluster}))
    with pytest.raises(Transient, match="busy"):
        publish.publish(entries)
    assert world.ports.bus.accepted == []


def test_an_entry_that_cannot_be_published_is_reported_and_delays_no_other_node():
    world = World(nodes=(KEY.node, "neighbor"))
    world.outcomes(world.message(XID_79), world.message(XID_79, node="neighbor"))
    broken = unpublished(world)[0]
    world.ports.table.write(Update(broken, set={("body",): "{broken"}))
    world.ports.clock.advance(timedelta(hours=30))
    failures = []
    for _ in range(5):
        failures.append(wire_sweep(world.app).run().failures)
        world.ports.clock.advance(timedelta(minutes=1))
    assert all(any("JSONDecodeError" in line for line in found) for found in failures)
    waiting = [Key(str(item["pk"]), str(item["sk"])) for item in world.ports.table.items() if "gsi4pk" in item]
    assert [key for key in waiting if key.sk.startswith(keys.ENTRY)] == [broken]
