"""Sender clocks: a clock that is years wrong hides no fault, ends no condition and leaves no node unmonitored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.records import Outcome
from faultbridge.domain.times import to_text
from faultbridge.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.ingest.test_heartbeat_monitor import stored
from tests.world import XID_79, World

WRONG = [datetime(1970, 1, 1, 0, 10, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, tzinfo=UTC)]
XID_92 = "NVRM: Xid (PCI:0000:c1:00): 92, pid=1, name=p, x"


def heartbeat(world: World, clock: datetime | None = None, **others: object) -> Delivery:
    """Return a heartbeat of an agent whose clock shows `clock`."""
    at = clock or world.now
    return world.message(json.dumps({"heartbeat": 1, "at": to_text(at)}), source="heartbeat", sent_at=at, **others)


def minutes(world: World, number: int = 1) -> None:
    world.ports.clock.advance(timedelta(minutes=number))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("clock", WRONG)
def test_a_node_with_a_wrong_clock_is_not_silent_until_its_heartbeats_stop(world: World, clock: datetime) -> None:
    for number in range(12):
        world.outcomes(heartbeat(world, clock + timedelta(minutes=number)))
        minutes(world)
        world.app.ops.sweep()
    assert list(world.node().conditions) == ["host.clock@node"]
    for _ in range(12):
        minutes(world)
        world.app.ops.sweep()
    assert "host.silent@node" in world.node().conditions


@pytest.mark.parametrize(("clock", "last_sent"), [(WRONG[0], "9999-12-31"), (WRONG[2], "0001-01-01")])
def test_a_corrected_time_beyond_the_calendar_is_rejected(world: World, clock: datetime, last_sent: str) -> None:
    delivery = heartbeat(world, clock)
    frame = json.loads(delivery.text) | {"digest": "0" * 16, "last_sent": {"0" * 16: f"{last_sent}T00:00:00Z"}}
    result = world.app.ingestion.ingest([replace(delivery, text=json.dumps(frame))])
    assert (list(result.reasons.values()), result.failed) == (["bad_time"], {})


@pytest.mark.parametrize("clock", WRONG)
def test_heartbeats_after_the_clock_was_set_replace_the_ones_before(world: World, clock: datetime) -> None:
    world.outcomes(heartbeat(world, clock))
    minutes(world, 5)
    world.outcomes(heartbeat(world))
    assert stored(world) == {KEY.node: world.now}


@pytest.mark.parametrize("clock", WRONG)
def test_a_fault_after_a_boot_with_a_wrong_clock_is_of_the_current_boot(world: World, clock: datetime) -> None:
    instance = world.node().incarnation.instance_id
    world.outcomes(heartbeat(world, instance_id=instance, boot_id="b1"))
    minutes(world, 5)
    world.outcomes(heartbeat(world, clock, instance_id=instance, boot_id="b2"))
    assert (world.node().incarnation.boot, world.node().incarnation.since) == (2, world.now)
    minutes(world, 5)
    assert world.outcomes(world.message(XID_79)) == [Outcome.RECORDED]
    assert world.node().status is NodeStatus.DEGRADED
    world.outcomes(heartbeat(world, instance_id=instance, boot_id="b3"))
    assert world.node().incarnation.boot == 3


@pytest.mark.parametrize("clock", WRONG)
def test_a_fault_with_a_wrong_clock_is_recorded_now_and_later_faults_count(world: World, clock: datetime) -> None:
    first = world.message(XID_92, sent_at=clock, received_at=max(clock, world.now))
    assert world.outcomes(first) == [Outcome.RECORDED]
    (condition,) = world.node().active()
    assert condition.last_at == world.now
    assert condition.attributes["time_claimed"] == to_text(clock)
    minutes(world, 30)
    assert world.outcomes(world.message(XID_92)) == [Outcome.FOLDED]
    minutes(world, 24 * 60)
    world.app.ops.sweep()
    assert not world.node().conditions


@pytest.mark.parametrize("claimed", [datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, tzinfo=UTC)])
def test_a_node_cannot_state_when_the_queue_received_its_record(claimed: datetime) -> None:
    world = World(settings={"FAULTBRIDGE_SENDER_PROOF": "required"})
    message = world.message(XID_92, received_at=claimed)
    instance = world.node().incarnation.instance_id
    sent = Delivery(message.id, message.text, message.received_at, sender=f"AROANODE:{instance}")
    assert world.outcomes(sent) == [Outcome.RECORDED]
    assert [condition.last_at for condition in world.node().active()] == [world.now]
