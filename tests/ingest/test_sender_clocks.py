"""Sender clocks: a clock that is years wrong hides no fault, ends no condition and leaves no node unmonitored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.decide.normalize.timestamp import clock_has_moved
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.records import Outcome
from faultbridge.model.storage import items, keys
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.ingest.heartbeat_monitor import stored
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
        wire_sweep(world.app).run()
    assert list(world.node().conditions) == ["host.clock@node"]
    for _ in range(12):
        minutes(world)
        wire_sweep(world.app).run()
    assert "host.silent@node" in world.node().conditions


@pytest.mark.parametrize(("clock", "last_sent"), [(WRONG[0], "9999-12-31"), (WRONG[2], "0001-01-01")])
def test_a_corrected_time_beyond_the_calendar_is_rejected(world: World, clock: datetime, last_sent: str) -> None:
    delivery = heartbeat(world, clock)
    frame = json.loads(delivery.text) | {"digest": "0" * 16, "last_sent": {"0" * 16: f"{last_sent}T00:00:00Z"}}
    result = wire_ingest(world.app).ingest([replace(delivery, text=json.dumps(frame))])
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
    wire_sweep(world.app).run()
    assert not world.node().conditions


@pytest.mark.parametrize("claimed", [datetime(2000, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, tzinfo=UTC)])
def test_a_node_cannot_state_when_the_queue_received_its_record(claimed: datetime) -> None:
    world = World(settings={"FAULTBRIDGE_SENDER_PROOF": "required"})
    message = world.message(XID_92, received_at=claimed)
    instance = world.node().incarnation.instance_id
    sent = Delivery(message.id, message.text, message.received_at, sender=f"AROANODE:{instance}")
    assert world.outcomes(sent) == [Outcome.RECORDED]
    assert [condition.last_at for condition in world.node().active()] == [world.now]


SLOW = [timedelta(minutes=20), timedelta(minutes=70), timedelta(hours=2), timedelta(days=1), timedelta(days=13)]


def own(world: World, slow: timedelta, text: str = XID_79, **others: object) -> Delivery:
    """Return a record of the node's agent, whose clock is behind."""
    instance = world.node().incarnation.instance_id
    return world.message(text, **{"sent_at": world.now - slow, "instance_id": instance} | others)


@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("stamped", [False, True], ids=["no time in the line", "time in the line"])
def test_a_fault_of_a_node_with_a_slow_clock_has_a_case(world: World, slow: timedelta, *, stamped: bool) -> None:
    world.outcomes(heartbeat(world, world.now - slow))
    minutes(world)
    line = f"{world.now - slow:%Y-%m-%dT%H:%M:%S.%f}+00:00 host kernel: {XID_79}" if stamped else XID_79
    assert world.outcomes(own(world, slow, line)) == [Outcome.RECORDED]
    assert world.node().live_case is not None
    condition = world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"]
    assert (condition.last_at, condition.attributes["time_claimed"]) == (world.now, to_text(world.now - slow))


def test_the_heartbeat_of_the_same_batch_shows_the_slow_clock_too(world: World) -> None:
    slow = timedelta(hours=2)
    world.outcomes(heartbeat(world, world.now - slow), own(world, slow))
    assert world.node().live_case is not None


def test_a_heartbeat_of_an_earlier_instance_does_not_show_the_clock_of_the_current_one(world: World) -> None:
    slow = timedelta(hours=3)
    world.outcomes(heartbeat(world, world.now - slow))
    minutes(world)
    world.outcomes(
        heartbeat(world, world.now - timedelta(hours=26), instance_id="i-0000000000000dead"), own(world, slow)
    )
    assert world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"].last_at == world.now


@pytest.mark.parametrize("delay", [timedelta(minutes=4), timedelta(minutes=14)])
def test_a_fault_beside_or_after_a_delayed_heartbeat_of_a_slow_clock_is_of_today(
    world: World, delay: timedelta
) -> None:
    slow = timedelta(days=5)
    world.outcomes(heartbeat(world, world.now - slow - delay))
    world.outcomes(own(world, slow))
    (condition,) = (one for one in world.node().conditions.values() if one.code == "xid.79")
    assert condition.last_at == world.now


def test_a_node_with_a_slow_clock_sends_a_counted_fault_that_waited_with_its_order_kept(world: World) -> None:
    slow, waited = timedelta(hours=2), timedelta(minutes=10)
    world.outcomes(heartbeat(world, world.now - slow))
    minutes(world)
    lines = "\n".join(
        f"{world.now - slow - waited + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}+00:00 host kernel: {XID_79}"
        for second in range(3)
    )
    world.outcomes(own(world, slow, lines))
    condition = world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"]
    assert condition.since == world.now - waited
    assert (condition.last_at - condition.since, condition.count) == (timedelta(seconds=2), 3)


def test_a_time_of_another_clock_is_kept_while_the_clock_of_the_node_is_slow(world: World) -> None:
    world.outcomes(heartbeat(world, world.now - timedelta(hours=2)))
    minutes(world)
    world.outcomes(world.message(XID_79, sent_at=world.now - timedelta(minutes=5)))
    assert world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"].last_at == world.now - timedelta(minutes=5)


def test_an_old_alert_of_a_collector_is_not_moved_by_the_clock_of_its_node(world: World) -> None:
    slow = timedelta(hours=2)
    world.outcomes(heartbeat(world, world.now - slow))
    labels = {"alertname": "DCGMXid", "xid": "79", "pci_bus_id": "00000000:C1:00.0", "node": KEY.node}
    begun = world.now - slow
    alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": to_text(begun), "fingerprint": "f"}
    body = {"version": "4", "groupKey": "g", "status": "firing", "receiver": "r", "alerts": [alert]}
    assert world.outcomes(world.message(json.dumps(body), source="alertmanager", node=None)) == [Outcome.RECORDED]
    assert world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"].last_at == begun


def test_after_the_clock_was_set_old_times_are_those_of_records_that_waited(world: World) -> None:
    world.outcomes(heartbeat(world, world.now - timedelta(hours=2)))
    minutes(world)
    world.outcomes(heartbeat(world))
    world.outcomes(own(world, timedelta(hours=2)))
    assert world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"].last_at == world.now - timedelta(hours=2)
    assert world.node().live_case is None


def test_a_fault_after_a_repair_counts_although_the_clock_is_slower_than_the_repair_is_old(world: World) -> None:
    slow = timedelta(minutes=20)
    world.outcomes(heartbeat(world, world.now - slow))
    key = keys.node_state(KEY)
    state = items.read_state(KEY, world.ports.table.get(key))
    verified = replace(state, floor=world.now)
    world.app.append(KEY, lambda _, __: Transition(verified), actor=Actor.STEP)
    minutes(world, 5)
    assert world.outcomes(own(world, slow)) == [Outcome.RECORDED]


@pytest.mark.parametrize(("before", "after"), [(timedelta(hours=26), timedelta(minutes=45)), (SLOW[0], SLOW[2])])
def test_a_slow_clock_that_moved_corrects_later_faults_by_its_new_difference(
    world: World, before: timedelta, after: timedelta
) -> None:
    world.outcomes(heartbeat(world, world.now - before))
    minutes(world, 5)
    world.outcomes(heartbeat(world, world.now - after))
    minutes(world, 5)
    world.outcomes(own(world, after))
    conditions = world.node().conditions
    assert conditions["gpu.lost@gpu/pci=0000:c1:00"].last_at == world.now
    assert conditions["host.clock@node"].message == f"The node's clock is {int(after.total_seconds())} s behind."


def test_a_clock_that_varies_within_the_tolerance_is_stored_as_first_reported(world: World) -> None:
    slow = timedelta(hours=2)
    world.outcomes(heartbeat(world, world.now - slow))
    minutes(world, 5)
    world.outcomes(heartbeat(world, world.now - slow - timedelta(seconds=90)))
    assert world.node().conditions["host.clock@node"].attributes["seconds_off"] == "-7200"


def test_a_heartbeat_gives_a_wrong_clock_that_an_agent_reported_its_difference() -> None:
    assert clock_has_moved({}, {"seconds_off": "-3600"})
    assert not clock_has_moved({"seconds_off": "-3600"}, {})
