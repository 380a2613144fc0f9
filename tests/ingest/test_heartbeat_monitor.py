"""Heartbeat monitor: a missing heartbeat is a fault, unless no records arrive at all."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.expire import end_verified
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus, RepairAction
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.storage import heartbeats, items, keys
from faultbridge.model.storage.writes import Item, Key, Put
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest import heartbeat_log
from faultbridge.serve.ingest.canary import LAST_RECORDED
from faultbridge.serve.ingest.heartbeat_log import WRITE_AFTER, ClusterHeartbeats
from faultbridge.serve.ingest.heartbeat_monitor import HEARTBEAT_GRACE
from faultbridge.serve.ops.erase import Erase
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_heartbeat_monitor
from tests.builders import KEY, NOON, after
from tests.ingest.heartbeat_monitor import beat, config, pass_time, record_canary, stored
from tests.sim.fakes import Call
from tests.sim.fakes.seam import Hook
from tests.world import World

SILENT = "host.silent@node"
OBSERVE = {"mode": "observe", "repair_owner": "observe"}


def silent(world: World, *nodes: str) -> list[bool]:
    return [SILENT in world.node(NodeKey(KEY.cluster, node)).conditions for node in nodes or (KEY.node,)]


def check(world: World, last: datetime) -> bool:
    """Check the node as a sweep does that found its last heartbeat overdue."""
    monitor = wire_heartbeat_monitor(world.app)
    return monitor.check(KEY, last, monitor.last_canary())


def batches(world: World) -> tuple[Item, ...]:
    return world.ports.table.query(heartbeats.partition(KEY.cluster), prefix=heartbeats.BATCH).items


def test_a_node_is_silent_only_after_the_timeout_without_heartbeats() -> None:
    world = World()
    beat(world)
    pass_time(world, 5)
    assert silent(world) == [False]
    pass_time(world, 1)
    assert silent(world) == [True]
    state = world.node()
    assert (state.status, state.live_case.code) == (NodeStatus.DEGRADED, "host.silent")


@pytest.mark.parametrize("last", range(1, 5))
@pytest.mark.parametrize("interval", [0.5, 1, 2])
def test_a_node_is_silent_five_to_six_minutes_after_its_last_heartbeat(interval: float, last: int) -> None:
    world = World(**OBSERVE)
    for _ in range(last):
        beat(world)
        world.ports.clock.advance(timedelta(minutes=interval))
    minutes = interval
    while silent(world) == [False]:
        world.ports.clock.advance(timedelta(seconds=30))
        assert wire_sweep(world.app).run().failures == []
        minutes += 0.5
    assert 5 <= minutes <= 6 + 0.5, "the last half minute is that of this sweep"


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


def test_a_node_that_returned_to_service_without_a_heartbeat_is_silent_again_after_the_timeout() -> None:
    world = World(**OBSERVE)
    beat(world)
    pass_time(world, 8)
    assert silent(world) == [True]

    def repaired(state: NodeState, now: datetime) -> Transition:
        ended = end_verified(state, RepairAction.REBOOT_NODE, at=now, covers=lambda _: False)
        return Transition(ended.state)

    wire_heartbeat_monitor(world.app).append(KEY, repaired, actor=Actor.STEP)
    assert silent(world) == [False]
    pass_time(world, 4)
    assert silent(world) == [False]
    pass_time(world, 2)
    assert silent(world) == [True]


def store_state(world: World, state: NodeState) -> None:
    """Store a state of the node that a repair left."""
    world.ports.table.write(Put(items.state_item(state, world.now)))


@pytest.mark.parametrize("evidence", ["floor", "evicted"])
def test_a_node_verified_after_another_fault_without_a_heartbeat_is_silent_after_the_timeout(evidence: str) -> None:
    world = World(**OBSERVE)
    beat(world)
    store_state(world, replace(world.node(), status=NodeStatus.QUARANTINED))
    pass_time(world, 8)
    floor, evicted = (world.now, {}) if evidence == "floor" else (None, {"host.silent": world.now})
    store_state(world, replace(world.node(), status=NodeStatus.HEALTHY, floor=floor, evicted=evicted))
    pass_time(world, 4)
    assert (silent(world), world.node().tombstones) == ([False], {})
    pass_time(world, 2)
    assert silent(world) == [True]


@given(st.integers(0, 60), st.integers(1, 25))
def test_each_silent_node_is_checked_again_in_turn(nodes: int, number: int) -> None:
    names = {f"n-{one:02}": NOON for one in range(nodes)}
    read = ClusterHeartbeats(ClusterConfig("train-a"), NOON, names, frozenset(names), ())
    turns = [
        replace(read, read_at=after(minutes=minute)).to_check_again(number) for minute in range(-(-nodes // number))
    ]
    assert all(len(turn) <= number for turn in turns)
    assert sorted(node.node for turn in turns for node in turn) == sorted(names)


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
    intake = wire_sweep(world.app).run().intake
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
    assert wire_sweep(world.app).run().intake.failed
    assert silent(world, *nodes) == [False] * 8


def test_many_silent_nodes_are_reported_while_canaries_arrive() -> None:
    nodes = tuple("abcd")
    world = World(nodes=nodes)
    beat(world, *nodes)
    world.ports.clock.advance(timedelta(minutes=8))
    record_canary(world)
    assert not wire_sweep(world.app).run().intake.failed
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
    assert wire_sweep(world.app).run().intake.failed


@pytest.mark.parametrize(("later", "expected"), [(timedelta(0), False), (timedelta(milliseconds=1), True)])
def test_a_node_is_silent_only_if_a_canary_was_sent_when_its_next_heartbeat_was_overdue(
    later: timedelta, expected: bool
) -> None:
    world = World()
    beat(world)
    last, timeout = world.now, Limits().heartbeat_timeout
    world.ports.clock.advance(timeout * WRITE_AFTER + HEARTBEAT_GRACE + later)
    record_canary(world)
    world.ports.clock.advance(timeout)
    assert check(world, last) is expected
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
    assert stored(world) == {}


def test_the_heartbeats_of_a_batch_are_one_item() -> None:
    nodes = tuple(f"n-{number}" for number in range(50))
    world = World(nodes=nodes)
    body = json.dumps({"heartbeat": 1, "at": to_text(world.now)})
    wire_ingest(world.app).ingest([world.message(body, source="heartbeat", node=node) for node in nodes])
    assert len(batches(world)) == 1
    assert stored(world) == dict.fromkeys(nodes, world.now)


@pytest.mark.parametrize("minutes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_several_heartbeats_of_a_batch_the_newest_is_stored(minutes: tuple[int, ...]) -> None:
    world = World()
    world.ports.clock.advance(timedelta(minutes=3))
    batch = [
        replace(world.message(json.dumps({"heartbeat": 1, "at": to_text(at)}), source="heartbeat"), received_at=at)
        for at in (after(minutes=minute) for minute in minutes)
    ]
    wire_ingest(world.app).ingest(batch)
    assert stored(world) == {KEY.node: after(minutes=2)}


def test_a_heartbeat_is_written_again_after_a_fifth_of_the_timeout() -> None:
    world = World()
    beat(world)
    fifth = Limits().heartbeat_timeout / 5
    for later, expected in ((fifth, NOON), (timedelta(milliseconds=1), NOON + fifth + timedelta(milliseconds=1))):
        world.ports.clock.advance(later)
        beat(world)
        assert stored(world) == {KEY.node: expected}


def test_the_policy_sets_the_heartbeat_timeout() -> None:
    world = World()
    PolicyStore(world.ports.table, world.ports.clock).put({"version": "p-1", "limits": {"heartbeat_timeout": 1800}})
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


def test_nodes_are_silent_when_as_many_others_are_on_time() -> None:
    nodes = ("a", "b", "c", "d", "e", "f")
    world = World(nodes=nodes)
    beat(world, *nodes)
    pass_time(world, 8, *nodes[3:])
    assert silent(world, *nodes) == [True] * 3 + [False] * 3


@pytest.mark.parametrize(("early", "expected"), [(timedelta(milliseconds=1), False), (timedelta(0), True)])
def test_a_node_is_not_silent_before_an_unwritten_heartbeat_would_be_overdue(early: timedelta, expected: bool) -> None:
    world = World()
    beat(world)
    world.ports.clock.advance(Limits().heartbeat_timeout * (1 + WRITE_AFTER) - early)
    assert wire_sweep(world.app).run().failures == []
    assert silent(world) == [expected]


def test_two_nodes_are_silent_although_no_other_node_is_on_time() -> None:
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    pass_time(world, 8)
    assert silent(world, "a", "b") == [True, True]


@pytest.mark.parametrize(("limit", "written"), [(2, 0), (1, 1)])
def test_written_heartbeats_are_remembered_up_to_a_number_of_nodes(
    limit: int, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat_log, "MAX_REMEMBERED", limit)
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    before = len(batches(world))
    world.ports.clock.advance(timedelta(seconds=1))
    beat(world, "a")
    assert len(batches(world)) - before == written


def test_a_heartbeat_that_arrived_while_its_fault_was_recorded_ends_the_fault_at_the_next_sweep() -> None:
    world = World(**OBSERVE)
    beat(world)
    last = world.now
    world.ports.clock.advance(timedelta(minutes=6))
    log = wire_heartbeat_log(world.app)
    log.record({KEY: world.now})  # ingest read the state before the sweep committed the fault
    assert check(world, last)
    log.store(replace(log.read(config(world)), last={KEY.node: last}), [KEY.node])
    assert silent(world) == [True]
    pass_time(world, 1)
    assert silent(world) == [False]


def test_a_fault_that_cannot_be_ended_delays_neither_other_nodes_nor_the_stored_heartbeats_and_is_ended_later() -> None:
    world = World(nodes=("a", "b", "c"), **OBSERVE)
    beat(world, "a", "b", "c")
    pass_time(world, 7, "c")
    assert silent(world, "a", "b", "c") == [True, True, False]
    world.ports.clock.advance(timedelta(minutes=1))
    node_a, node_b = (NodeKey(KEY.cluster, name) for name in "ab")
    wire_heartbeat_log(world.app).record({node_a: world.now, node_b: world.now})  # ingest saw no fault to end
    world.ports.seam.before = fail_writes_of(keys.node_state(node_a))
    (failure,) = wire_sweep(world.app).run().failures
    assert failure.startswith(f"ending the missing heartbeat of {node_a.stream}: Transient")
    assert silent(world, "a", "b") == [True, False]
    rows = world.ports.table.query(heartbeats.partition(KEY.cluster), prefix=heartbeats.LAST).items
    last = {node: at for row in rows for node, at in heartbeats.read_last(row).last.items()}
    assert {node for row in rows for node in heartbeats.read_last(row).silent} == {"a"}
    assert (last["a"], last["b"]) == (NOON, world.now)
    world.ports.seam.before = lambda _: None
    pass_time(world, 1, "c")
    assert silent(world, "a", "b") == [False, False]


def fail_writes_of(key: Key) -> Hook:
    """Return a hook that lets no transaction write an item."""

    def hook(call: Call) -> None:
        if call.name == "table.transact" and key in [write.key for write in call.argument]:
            raise Transient("throttled")

    return hook


def test_a_sweep_reads_the_canary_once_however_many_nodes_are_silent() -> None:
    nodes = tuple("abcdef")
    world = World(nodes=nodes, **OBSERVE)
    beat(world, *nodes)
    world.ports.clock.advance(timedelta(minutes=8))
    record_canary(world)
    before = len(world.ports.seam.calls)
    assert wire_sweep(world.app).run().failures == []
    assert silent(world, *nodes) == [True] * 6
    reads = [call for call in world.ports.seam.calls[before:] if call.name == "table.get"]
    assert [call.argument for call in reads].count(LAST_RECORDED) == 1


def test_a_silent_node_is_forgotten_after_a_week_and_watched_again_after_its_next_heartbeat() -> None:
    world = World(**OBSERVE)
    beat(world)
    pass_time(world, 7)
    assert stored(world) == {KEY.node: NOON}
    world.ports.clock.advance(timedelta(days=6))
    pass_time(world, 1)
    assert stored(world) == {KEY.node: NOON}
    world.ports.clock.advance(timedelta(days=1))
    pass_time(world, 1)
    assert stored(world) == {}
    beat(world)
    assert silent(world) == [False]
    pass_time(world, 7)
    assert silent(world) == [True]


def test_no_node_is_silent_because_no_sweep_ran_for_hours() -> None:
    world = World(nodes=("a", "b"), **OBSERVE)
    for _ in range(180):
        beat(world, "a", "b")
        world.ports.clock.advance(timedelta(minutes=1))
    assert wire_sweep(world.app).run().failures == []
    assert silent(world, "a", "b") == [False, False]


def test_heartbeats_stay_known_when_the_number_of_shards_changes() -> None:
    nodes = tuple(f"n-{number}" for number in range(9))
    world = World(nodes=nodes, **OBSERVE)
    beat(world, *nodes)
    log, first = wire_heartbeat_log(world.app), config(world)
    for shards in (1, 4, 2):
        world.ports.clock.advance(heartbeat_log.STORED_EVERY)
        log.store(log.read(replace(first, shards=shards)))
        assert dict(log.read(replace(first, shards=shards)).last) == dict.fromkeys(nodes, NOON)
        rows = world.ports.table.query(heartbeats.partition(KEY.cluster), prefix=heartbeats.LAST).items
        assert len(rows) == shards


def test_a_sweep_that_loses_a_race_keeps_what_the_other_one_stored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    beat(world)
    log = wire_heartbeat_log(world.app)
    first = log.read(config(world))
    world.ports.clock.advance(timedelta(minutes=2))
    beat(world)
    log.store(log.read(config(world)))
    log.store(first)
    assert stored(world) == {KEY.node: world.now}
    (line,) = [vars(record) for record in caplog.records if record.message == "last_heartbeats_not_stored"]
    assert (line["reason"], line["cluster"]) == ("another sweep stored them", KEY.cluster)


@pytest.mark.parametrize(("seconds", "expected"), [(30, True), (120, True), (121, False)])
def test_a_batch_written_up_to_two_minutes_before_a_read_and_visible_later_is_read_by_the_next_sweep(
    seconds: int, *, expected: bool
) -> None:
    world = World()
    beat(world)
    world.ports.clock.advance(timedelta(minutes=10))
    log = wire_heartbeat_log(world.app)
    log.store(log.read(config(world)))
    written = world.now - timedelta(seconds=seconds)
    world.ports.table.write(heartbeats.batch_put(KEY.cluster, {KEY.node: written}, written))
    assert stored(world) == {KEY.node: written if expected else NOON}


def test_erase_deletes_the_heartbeats_of_a_cluster() -> None:
    world = World(**OBSERVE)
    beat(world)
    pass_time(world, 1)
    Erase(world.ports.table).erase(KEY.cluster)
    assert world.ports.table.query(heartbeats.partition(KEY.cluster)).items == ()
