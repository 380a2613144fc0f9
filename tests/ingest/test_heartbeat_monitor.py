"""Silence: a heartbeat that stays away is a fault, whoever else is quiet; that nobody is heard is our own deafness."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.policy import Limits
from faultbridge.domain.times import to_text
from faultbridge.ingest import heartbeat_monitor
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
from faultbridge.rules.policies import PolicyStore
from faultbridge.storage import keys
from tests.builders import KEY, NOON
from tests.world import World

SILENT = "host.silent@node"
LOOK_ONLY = {"mode": "observe", "repair_owner": "observe"}


def beat(world: World, *nodes: str, **others: object) -> None:
    body = json.dumps({"heartbeat": 1, "at": to_text(world.now)})
    for node in nodes or (KEY.node,):
        world.app.ingestion.ingest([world.message(body, source="heartbeat", node=node, **others)])


def pass_time(world: World, minutes: float, *alive: str) -> None:
    """Let a sweep run each minute while some nodes go on beating."""
    for _ in range(round(minutes)):
        world.ports.clock.advance(timedelta(minutes=1))
        if alive:
            beat(world, *alive)
        assert world.app.ops.sweep().failures == []


def silent(world: World, *nodes: str) -> list[bool]:
    return [SILENT in world.node(NodeKey(KEY.cluster, node)).conditions for node in nodes or (KEY.node,)]


def test_a_node_whose_heartbeats_stop_is_silent_after_the_limit_and_not_before() -> None:
    world = World()
    beat(world)
    pass_time(world, 5)
    assert silent(world) == [False]
    pass_time(world, 3)
    assert silent(world) == [True]
    state = world.node()
    assert (state.status, state.live_case.code) == (NodeStatus.QUARANTINED, "host.silent")


def test_a_node_that_never_sent_a_heartbeat_is_not_missed() -> None:
    world = World()
    pass_time(world, 20)
    assert silent(world) == [False]


def test_the_next_heartbeat_ends_the_silence() -> None:
    world = World(**LOOK_ONLY)
    beat(world)
    pass_time(world, 8)
    beat(world)
    assert silent(world) == [False]
    pass_time(world, 8)
    assert silent(world) == [True]


def test_silence_is_raised_once_however_often_the_sweep_runs() -> None:
    world = World()
    beat(world)
    pass_time(world, 8)
    before = world.node()
    pass_time(world, 5)
    assert world.node().conditions == before.conditions


def test_when_nobody_is_heard_any_more_it_is_we_who_are_deaf() -> None:
    nodes = ("a", "b", "c")
    world = World(nodes=nodes)
    beat(world, *nodes)
    pass_time(world, 10)
    assert silent(world, *nodes) == [False] * 3
    assert world.app.ops.sweep().deaf == 3
    beat(world, *nodes)
    pass_time(world, 10, "a", "b")
    assert silent(world, *nodes) == [False, False, True]


def test_a_node_that_is_not_in_service_is_not_missed() -> None:
    world = World()
    beat(world)
    pass_time(world, 8)
    assert world.node().status is NodeStatus.QUARANTINED
    beat(world)
    pass_time(world, 8)
    assert silent(world) == [False]


def test_a_heartbeat_of_a_former_instance_is_no_sign_of_life() -> None:
    world = World()
    beat(world, instance_id="i-0000000000000dead")
    assert world.ports.table.get(keys.heartbeat(KEY)) is None


def test_most_heartbeats_write_nothing() -> None:
    world = World()
    for _ in range(10):
        beat(world)
        world.ports.clock.advance(timedelta(seconds=30))
    written = [record for record in world.ports.table.stream if record.new and record.new["sk"] == "SEEN"]
    assert len(written) == 4


def test_how_long_a_heartbeat_may_stay_away_is_the_policys() -> None:
    world = World()
    half_an_hour = timedelta(minutes=30) // timedelta(milliseconds=1)
    PolicyStore(world.ports.table, world.ports.clock).put(
        {"version": "p-1", "limits": {"heartbeat_timeout": half_an_hour}}
    )
    beat(world)
    pass_time(world, 20)
    assert silent(world) == [False]
    pass_time(world, 20)
    assert silent(world) == [True]


def test_a_heartbeat_soon_after_one_that_is_stored_asks_for_nothing_but_the_state() -> None:
    world = World()
    beat(world)
    before = len(world.ports.seam.calls)
    world.ports.clock.advance(timedelta(seconds=10))
    beat(world)
    calls = world.ports.seam.calls[before:]
    assert [call.name for call in calls] == ["table.get_many"]
    assert keys.node_state(KEY) in calls[0].argument


def test_a_new_worker_reads_what_another_one_heard() -> None:
    world = World()
    beat(world)
    del world.app
    world.ports.clock.advance(timedelta(seconds=10))
    beat(world)
    before = len(world.ports.seam.calls)
    beat(world)
    assert [call.name for call in world.ports.seam.calls[before:]] == ["table.get_many"]


def test_as_many_silent_nodes_as_others_are_heard_are_silent() -> None:
    nodes = ("a", "b", "c", "d", "e", "f")
    world = World(nodes=nodes)
    beat(world, *nodes)
    pass_time(world, 8, *nodes[3:])
    assert silent(world, *nodes) == [True] * 3 + [False] * 3


@pytest.mark.parametrize(("early", "expected"), [(timedelta(milliseconds=1), False), (timedelta(0), True)])
def test_a_node_is_silent_from_the_very_instant_of_its_limit(early: timedelta, expected: bool) -> None:
    world = World()
    beat(world)
    world.ports.clock.advance(Limits().heartbeat_timeout - early)
    HeartbeatMonitor(world.ports.table, world.app.ledger.append, world.app.rules.rulebook).judge(KEY)
    assert silent(world) == [expected]


def reads(world: World) -> int:
    """How often it was read when somebody was heard last."""
    calls = world.ports.seam.named("table.get_many")
    return sum(any(keys.is_heartbeat(key.sk) for key in call.argument) for call in calls)


def test_a_sign_of_life_is_stored_again_when_more_than_a_quarter_of_the_limit_has_passed() -> None:
    world = World()
    beat(world)
    quarter = Limits().heartbeat_timeout / 4
    for later, stored in ((quarter, NOON), (timedelta(milliseconds=1), NOON + quarter + timedelta(milliseconds=1))):
        world.ports.clock.advance(later)
        beat(world)
        seen = world.ports.table.get(keys.heartbeat(KEY))
        assert seen is not None
        assert seen["last_at"] == to_text(stored)


def test_two_nodes_may_fall_silent_although_nobody_else_is_heard() -> None:
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    pass_time(world, 8)
    assert silent(world, "a", "b") == [True, True]


@pytest.mark.parametrize(("most", "read"), [(2, 0), (1, 1)])
def test_who_was_stored_lately_is_remembered_of_so_many_nodes(
    most: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat_monitor, "MAX_KEPT", most)
    world = World(nodes=("a", "b"))
    beat(world, "a", "b")
    before = reads(world)
    beat(world, "a")
    assert reads(world) - before == read
