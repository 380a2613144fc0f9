"""Heartbeat monitor: a missing heartbeat is a fault, unless no records arrive at all."""

from __future__ import annotations

import json
import logging
from datetime import timedelta

import pytest

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.policy import Limits
from faultbridge.domain.times import to_text
from faultbridge.ingest import heartbeat_monitor
from faultbridge.ingest.canary import LAST_RECORDED
from faultbridge.ingest.heartbeat_monitor import HEARTBEAT_GRACE, HeartbeatMonitor
from faultbridge.rules.policies import PolicyStore
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put
from tests.builders import KEY, NOON
from tests.races import run_before_write, writes_to
from tests.world import World

SILENT = "host.silent@node"
OBSERVE = {"mode": "observe", "repair_owner": "observe"}


def beat(world: World, *nodes: str, **others: object) -> None:
    body = json.dumps({"heartbeat": 1, "at": to_text(world.now)})
    for node in nodes or (KEY.node,):
        world.app.ingestion.ingest([world.message(body, source="heartbeat", node=node, **others)])


def pass_time(world: World, minutes: float, *alive: str) -> None:
    """Run a sweep each minute while some nodes keep sending heartbeats."""
    for _ in range(round(minutes)):
        world.ports.clock.advance(timedelta(minutes=1))
        if alive:
            beat(world, *alive)
        assert world.app.ops.sweep().failures == []


def record_canary(world: World) -> None:
    sent = {"sent_at": to_text(world.now)}
    world.ports.table.write(Put(items.item(LAST_RECORDED, world.now, sent)))


def silent(world: World, *nodes: str) -> list[bool]:
    return [SILENT in world.node(NodeKey(KEY.cluster, node)).conditions for node in nodes or (KEY.node,)]


def test_a_node_is_silent_only_after_the_timeout_without_heartbeats() -> None:
    world = World()
    beat(world)
    pass_time(world, 5)
    assert silent(world) == [False]
    pass_time(world, 3)
    assert silent(world) == [True]
    state = world.node()
    assert (state.status, state.live_case.code) == (NodeStatus.QUARANTINED, "host.silent")


@pytest.mark.parametrize("last", range(1, 5))
@pytest.mark.parametrize("interval", [1, 2])
def test_a_node_is_silent_five_to_seven_and_a_half_minutes_after_its_last_heartbeat(interval: int, last: int) -> None:
    world = World(**OBSERVE)
    for _ in range(last):
        beat(world)
        pass_time(world, interval)
    minutes = interval
    while silent(world) == [False]:
        world.ports.clock.advance(timedelta(seconds=30))
        assert world.app.ops.sweep().failures == []
        minutes += 0.5
    assert 5 <= minutes <= 7.5 + 0.5, "the last half minute is that of this sweep"


def test_a_node_that_sends_every_two_minutes_and_loses_one_of_three_heartbeats_is_never_silent() -> None:
    world = World(**OBSERVE)
    for number in range(30):
        if number % 3:
            beat(world)
        pass_time(world, 2)
        assert silent(world) == [False]


def test_a_node_that_never_sent_a_heartbeat_is_not_silent() -> None:
    world = World()
    pass_time(world, 20)
    assert silent(world) == [False]


def test_the_next_heartbeat_clears_the_fault() -> None:
    world = World(**OBSERVE)
    beat(world)
    pass_time(world, 8)
    beat(world)
    assert silent(world) == [False]
    pass_time(world, 8)
    assert silent(world) == [True]


def test_the_fault_is_recorded_once_however_often_the_sweep_runs() -> None:
    world = World()
    beat(world)
    pass_time(world, 8)
    before = world.node()
    pass_time(world, 5)
    assert world.node().conditions == before.conditions


def test_no_node_is_silent_while_no_records_arrive(caplog: pytest.LogCaptureFixture) -> None:
    nodes = ("a", "b", "c")
    world = World(nodes=nodes)
    record_canary(world)
    world.ports.clock.advance(timedelta(minutes=4))
    beat(world, *nodes)
    pass_time(world, 10)
    assert silent(world, *nodes) == [False] * 3
    caplog.clear()
    intake = world.app.ops.sweep().intake
    assert intake is not None
    assert intake.failed
    (line,) = [vars(record) for record in caplog.records if record.message == "missing_heartbeats_ignored"]
    assert (line["overdue"], line["on_time"]) == (3, 0)
    record_canary(world)
    beat(world, *nodes)
    pass_time(world, 6, "a", "b")
    record_canary(world)
    pass_time(world, 4, "a", "b")
    assert silent(world, *nodes) == [False, False, True]


def test_a_missing_canary_shows_that_no_records_arrive_even_while_some_nodes_are_not_overdue_yet() -> None:
    nodes = tuple("abcdefgh")
    world = World(nodes=nodes)
    record_canary(world)
    beat(world, *nodes[:5])
    world.ports.clock.advance(timedelta(minutes=3))
    beat(world, *nodes[5:])
    world.ports.clock.advance(timedelta(minutes=5))
    assert world.app.ops.sweep().intake.failed
    assert silent(world, *nodes) == [False] * 8


def test_many_silent_nodes_are_reported_while_canaries_arrive() -> None:
    nodes = tuple("abcd")
    world = World(nodes=nodes)
    beat(world, *nodes)
    world.ports.clock.advance(timedelta(minutes=8))
    record_canary(world)
    assert not world.app.ops.sweep().intake.failed
    assert silent(world, *nodes) == [True] * 4


@pytest.mark.parametrize("number", [1, 2, 3, 10])
def test_no_node_is_silent_if_the_intake_fails_just_after_a_canary(number: int) -> None:
    nodes = tuple(f"n-{one}" for one in range(number))
    world = World(nodes=nodes)
    beat(world, *nodes)
    pass_time(world, 5, *nodes)
    record_canary(world)
    pass_time(world, 90)
    assert silent(world, *nodes) == [False] * number
    assert world.app.ops.sweep().intake.failed


@pytest.mark.parametrize(("later", "expected"), [(timedelta(0), False), (timedelta(milliseconds=1), True)])
def test_a_node_is_silent_only_if_a_canary_was_sent_when_its_next_heartbeat_was_overdue(
    later: timedelta, expected: bool
) -> None:
    world = World()
    beat(world)
    timeout = Limits().heartbeat_timeout
    world.ports.clock.advance(timeout / 2 + HEARTBEAT_GRACE + later)
    record_canary(world)
    world.ports.clock.advance(timeout)
    HeartbeatMonitor(world.ports.table, world.app.ledger.append, world.app.rules.rulebook).check(KEY)
    assert silent(world) == [expected]


def test_a_node_out_of_service_is_not_silent() -> None:
    world = World()
    beat(world)
    pass_time(world, 8)
    assert world.node().status is NodeStatus.QUARANTINED
    beat(world)
    pass_time(world, 8)
    assert silent(world) == [False]


def test_a_heartbeat_of_an_earlier_instance_is_not_stored() -> None:
    world = World()
    beat(world, instance_id="i-0000000000000dead")
    assert world.ports.table.get(keys.heartbeat(KEY)) is None


def test_most_heartbeats_write_nothing() -> None:
    world = World()
    for _ in range(10):
        beat(world)
        world.ports.clock.advance(timedelta(seconds=30))
    written = [record for record in world.ports.table.stream if record.new and record.new["sk"] == "SEEN"]
    assert len(written) == 2


def test_the_policy_sets_the_heartbeat_timeout() -> None:
    world = World()
    half_an_hour = timedelta(minutes=30) // timedelta(milliseconds=1)
    PolicyStore(world.ports.table, world.ports.clock).put(
        {"version": "p-1", "limits": {"heartbeat_timeout": half_an_hour}}
    )
    beat(world)
    pass_time(world, 20)
    assert silent(world) == [False]
    pass_time(world, 26)
    assert silent(world) == [True]


def test_a_heartbeat_soon_after_a_stored_one_reads_only_the_state() -> None:
    world = World()
    beat(world)
    before = len(world.ports.seam.calls)
    world.ports.clock.advance(timedelta(seconds=10))
    beat(world)
    calls = world.ports.seam.calls[before:]
    assert [call.name for call in calls] == ["table.get_many"]
    assert keys.node_state(KEY) in calls[0].argument


def test_a_new_process_reads_the_stored_heartbeat_once() -> None:
    world = World()
    beat(world)
    del world.app
    world.ports.clock.advance(timedelta(seconds=10))
    beat(world)
    before = len(world.ports.seam.calls)
    beat(world)
    assert [call.name for call in world.ports.seam.calls[before:]] == ["table.get_many"]


def test_nodes_are_silent_when_as_many_others_are_on_time() -> None:
    nodes = ("a", "b", "c", "d", "e", "f")
    world = World(nodes=nodes)
    beat(world, *nodes)
    pass_time(world, 8, *nodes[3:])
    assert silent(world, *nodes) == [True] * 3 + [False] * 3


@pytest.mark.parametrize(("early", "expected"), [(timedelta(milliseconds=1), False), (timedelta(0), True)])
def test_a_node_is_silent_exactly_when_its_timeout_ends(early: timedelta, expected: bool) -> None:
    world = World()
    beat(world)
    world.ports.clock.advance(Limits().heartbeat_timeout - early)
    HeartbeatMonitor(world.ports.table, world.app.ledger.append, world.app.rules.rulebook).check(KEY)
    assert silent(world) == [expected]


def reads(world: World) -> int:
    """Count the reads of stored heartbeats."""
    calls = world.ports.seam.named("table.get_many")
    return sum(any(keys.is_heartbeat(key.sk) for key in call.argument) for call in calls)


def test_a_heartbeat_is_stored_again_after_half_of_the_timeout() -> None:
    world = World()
    beat(world)
    half = Limits().heartbeat_timeout / 2
    for later, stored in ((half, NOON), (timedelta(milliseconds=1), NOON + half + timedelta(milliseconds=1))):
        world.ports.clock.advance(later)
        beat(world)
        seen = world.ports.table.get(keys.heartbeat(KEY))
        assert seen is not None
        assert seen["last_at"] == to_text(stored)


def test_two_nodes_are_silent_although_no_other_node_is_on_time() -> None:
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    pass_time(world, 8)
    assert silent(world, "a", "b") == [True, True]


@pytest.mark.parametrize(("limit", "read"), [(2, 0), (1, 1)])
def test_stored_heartbeats_are_remembered_up_to_a_number_of_nodes(
    limit: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat_monitor, "MAX_REMEMBERED", limit)
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    before = reads(world)
    beat(world, "a")
    assert reads(world) - before == read


def test_a_newer_heartbeat_of_another_process_stays_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    later = world.now + timedelta(seconds=30)
    monitors = [
        HeartbeatMonitor(world.ports.table, world.app.ledger.append, world.app.rules.rulebook) for _ in range(2)
    ]
    run_before_write(world.ports.seam, writes_to(keys.heartbeat(KEY)), lambda: monitors[1].record({KEY: later}))
    monitors[0].record({KEY: world.now})
    seen = world.ports.table.get(keys.heartbeat(KEY))
    assert seen is not None
    assert seen["last_at"] == to_text(later)
    (line,) = [vars(record) for record in caplog.records if record.message == "heartbeat_not_stored"]
    assert (line["reason"], line["cluster"], line["node"]) == ("newer_heartbeat_stored", *KEY)
