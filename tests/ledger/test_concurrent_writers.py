"""Another writer commits between the read and the write of a service: its change is never overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import NodeStatus
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.nodes import Alias, AliasRow, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.roster import AliasChange, alias_writes
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_send_canary, wire_sweep
from faultbridge.serve.ingest.canary import CLUSTER as CANARIES
from faultbridge.serve.ingest.canary import LAST_RECORDED
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_registration, wire_retirement
from tests.builders import KEY
from tests.ingest.heartbeat_monitor import stored
from tests.races import run_after_read, run_before_write, writes_to
from tests.world import World

OTHER = NodeKey(KEY.cluster, "other")
NAME = Alias("name", f"{KEY.cluster}/node7")


def take_name(world: World, key: NodeKey, alias: Alias = NAME) -> Callable[[], None]:
    """Return an action that makes a name belong to a node, starting in one minute."""
    row = AliasRow(key, None, world.now + timedelta(minutes=1))
    return lambda: world.ports.table.write(Put(items.alias_item(alias, row, world.now)))


def owner_of(world: World, alias: Alias = NAME) -> NodeKey:
    found = world.ports.table.get(keys.alias(*alias))
    assert found is not None
    return items.read_alias(found).key


def heartbeat(world: World, seconds: int = 0) -> Callable[[], object]:
    """Return an action that delivers a heartbeat of the node, which the queue received some seconds from now."""
    at = world.now + timedelta(seconds=seconds)
    body = json.dumps({"heartbeat": 1, "at": to_text(at)})
    delivery = replace(world.message(body, source="heartbeat", sent_at=at), received_at=at)
    return lambda: wire_ingest(world.app).ingest([delivery])


@pytest.mark.parametrize("owned", [False, True])
def test_a_name_that_another_node_took_meanwhile_is_not_taken_from_that_node(owned: bool) -> None:
    world = World()
    if owned:
        take_name(world, KEY)()
    change = AliasChange(KEY, "i-0123456789abcdef0", world.now, added=("node7",))
    writes = list(alias_writes(world.ports.table, change, world.now))
    world.ports.clock.advance(1)
    take_name(world, OTHER)()
    with pytest.raises(Conflict):
        world.ports.table.transact(writes)
    assert owner_of(world) == OTHER


def test_a_name_that_another_node_has_already_is_not_ended() -> None:
    world = World()
    take_name(world, OTHER)()
    before = world.ports.table.get(keys.alias(*NAME))
    change = AliasChange(
        KEY, "i-0123456789abcdef0", world.now, added=(), removed=("node7",), former="i-0fffffffffffffff0"
    )
    world.ports.table.transact(list(alias_writes(world.ports.table, change, world.now)))
    assert world.ports.table.get(keys.alias(*NAME)) == before


def test_the_name_of_another_node_is_not_ended() -> None:
    world = World()
    take_name(world, KEY)()
    change = AliasChange(
        KEY, "i-0123456789abcdef0", world.now, added=(), removed=("node7",), former="i-0fffffffffffffff0"
    )
    writes = list(alias_writes(world.ports.table, change, world.now))
    world.ports.clock.advance(1)
    take_name(world, OTHER)()
    with pytest.raises(Conflict):
        world.ports.table.transact(writes)
    assert owner_of(world) == OTHER


@pytest.mark.parametrize("closed", [False, True])
def test_a_node_is_not_registered_with_a_name_that_another_node_took_meanwhile(closed: bool) -> None:
    world = World()
    if closed:
        row = AliasRow(KEY, None, world.now - timedelta(days=1), valid_to=world.now)
        world.ports.table.write(Put(items.alias_item(NAME, row, world.now)))
    run_before_write(world.ports.seam, writes_to(keys.node_state(OTHER)), take_name(world, KEY))
    with pytest.raises(Rejected, match="alias_taken"):
        wire_registration(world.app).add_node(KEY.cluster, NewNode(OTHER.node, aliases=("node7",)))
    assert owner_of(world) == KEY


def test_of_two_concurrent_changes_of_a_cluster_neither_is_lost() -> None:
    world = World(mode=Mode.OBSERVE)
    registration, config = wire_registration(world.app), keys.cluster_config(KEY.cluster)
    act = {"mode": Mode.ACT}
    run_before_write(world.ports.seam, writes_to(config), lambda: registration.set_cluster(KEY.cluster, act))
    with pytest.raises(Conflict):
        registration.set_cluster(KEY.cluster, {"expected": 9})
    assert registration.cluster(KEY.cluster).mode is Mode.ACT


def test_a_retired_node_does_not_end_a_name_that_another_node_took_meanwhile() -> None:
    world = World()
    wire_registration(world.app).add_node(KEY.cluster, NewNode(OTHER.node, aliases=("node7",)))
    run_before_write(world.ports.seam, writes_to(keys.node_state(OTHER)), take_name(world, KEY))
    assert wire_retirement(world.app).retire(OTHER, OperatorOrder()).status is NodeStatus.RETIRED
    assert owner_of(world) == KEY


def test_retiring_a_node_does_not_revert_a_change_of_its_cluster() -> None:
    world = World(nodes=(KEY.node, OTHER.node), mode=Mode.OBSERVE)
    registration = wire_registration(world.app)
    act = {"mode": Mode.ACT}
    run_before_write(
        world.ports.seam, writes_to(keys.node_state(OTHER)), lambda: registration.set_cluster(KEY.cluster, act)
    )
    wire_retirement(world.app).retire(OTHER, OperatorOrder())
    config = registration.cluster(KEY.cluster)
    assert (config.mode, config.expected) == (Mode.ACT, 1)


def test_a_canary_that_two_workers_process_at_once_is_recorded_once() -> None:
    world = World()
    wire_send_canary(world.app).send()
    (sent,) = world.ports.queue.messages
    delivery = Delivery("m-1", sent.body, world.now)
    run_after_read(
        world.ports.seam, LAST_RECORDED, lambda: wire_ingest(world.app).ingest([replace(delivery, id="m-2")])
    )
    assert set(wire_ingest(world.app).ingest([delivery]).failed) == {"m-1"}
    notes = [line.event.metadata.event_type for line in Timeline(world.ports.table).entries(TimelineQuery(CANARIES))]
    assert notes.count("Node Note Recorded") == 1


def test_an_older_heartbeat_that_is_written_later_changes_nothing() -> None:
    world = World()
    heartbeat(world, seconds=30)()
    wire_heartbeat_log(world.app).record({KEY: world.now})
    assert stored(world) == {KEY.node: world.now + timedelta(seconds=30)}


def test_a_heartbeat_that_arrives_during_the_check_leaves_no_fault_after_the_next_sweep() -> None:
    world = World()
    heartbeat(world)()
    world.ports.clock.advance(timedelta(minutes=10))
    run_before_write(world.ports.seam, writes_to(keys.node_state(KEY)), heartbeat(world))
    wire_sweep(world.app).run()
    assert stored(world) == {KEY.node: world.now}
    world.ports.clock.advance(timedelta(minutes=1))
    wire_sweep(world.app).run()
    assert world.node().conditions == {}
