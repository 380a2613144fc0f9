"""Somebody else is faster between what a service reads and what it writes for that: their word is not written over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.clusters import Mode
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Rejected
from faultbridge.ingest.canary import CLUSTER as CANARIES
from faultbridge.ingest.canary import KEPT
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ledger.timeline import Timeline, Wanted
from faultbridge.registry.aliases import Renaming, renamed
from faultbridge.registry.registration import NewNode
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put
from tests.builders import KEY
from tests.races import run_after_read, run_before_write, writes_to
from tests.world import World

OTHER = NodeKey(KEY.cluster, "other")
NAME = Alias("name", f"{KEY.cluster}/node7")


def calls(world: World, key: NodeKey, alias: Alias = NAME) -> Callable[[], None]:
    """Let a name lead to a node from a minute hence."""
    row = AliasRow(key, None, world.now + timedelta(minutes=1))
    return lambda: world.ports.table.write(Put(items.alias_item(alias, row, world.now)))


def leads_to(world: World, alias: Alias = NAME) -> NodeKey:
    found = world.ports.table.get(keys.alias(*alias))
    assert found is not None
    return items.read_alias(found).key


def beats(world: World, seconds: int = 0) -> Callable[[], object]:
    """Let the node's agent be heard, some seconds from now."""
    at = world.now + timedelta(seconds=seconds)
    body = json.dumps({"heartbeat": 1, "at": to_text(at)})
    return lambda: world.app.ingestion.ingest([world.message(body, source="heartbeat", sent_at=at)])


@pytest.mark.parametrize("held", [False, True])
def test_a_name_that_another_node_took_meanwhile_is_not_taken_from_it(held: bool) -> None:
    world = World()
    if held:
        calls(world, KEY)()
    renaming = Renaming(KEY, "i-0123456789abcdef0", world.now, begin=("node7",))
    writes = list(renamed(world.ports.table, renaming, world.now))
    world.ports.clock.advance(1)
    calls(world, OTHER)()
    with pytest.raises(Conflict):
        world.ports.table.transact(writes)
    assert leads_to(world) == OTHER


def test_a_name_that_another_node_took_meanwhile_is_not_ended() -> None:
    world = World()
    calls(world, KEY)()
    renaming = Renaming(KEY, "i-0123456789abcdef0", world.now, begin=(), end=("node7",), former="i-0fffffffffffffff0")
    writes = list(renamed(world.ports.table, renaming, world.now))
    world.ports.clock.advance(1)
    calls(world, OTHER)()
    with pytest.raises(Conflict):
        world.ports.table.transact(writes)
    assert leads_to(world) == OTHER


@pytest.mark.parametrize("closed", [False, True])
def test_a_node_is_not_registered_under_a_name_that_another_took_meanwhile(closed: bool) -> None:
    world = World()
    if closed:
        row = AliasRow(KEY, None, world.now - timedelta(days=1), valid_to=world.now)
        world.ports.table.write(Put(items.alias_item(NAME, row, world.now)))
    run_before_write(world.ports.seam, writes_to(keys.node_state(OTHER)), calls(world, KEY))
    with pytest.raises(Rejected, match="alias_taken"):
        world.app.registry.registration.add_node(KEY.cluster, NewNode(OTHER.node, aliases=("node7",)))
    assert leads_to(world) == KEY


def test_of_two_changes_of_a_cluster_at_once_neither_is_lost() -> None:
    world = World(mode=Mode.OBSERVE)
    registration, config = world.app.registry.registration, keys.cluster_config(KEY.cluster)
    act = {"mode": Mode.ACT}
    run_before_write(world.ports.seam, writes_to(config), lambda: registration.set_cluster(KEY.cluster, act))
    with pytest.raises(Conflict):
        registration.set_cluster(KEY.cluster, {"expected": 9})
    assert registration.cluster(KEY.cluster).mode is Mode.ACT


def test_a_node_that_retires_leaves_a_name_to_the_node_that_took_it_meanwhile() -> None:
    world = World()
    world.app.registry.registration.add_node(KEY.cluster, NewNode(OTHER.node, aliases=("node7",)))
    run_before_write(world.ports.seam, writes_to(keys.node_state(OTHER)), calls(world, KEY))
    assert world.app.registry.retirement(OTHER, CaseOrder()).status is NodeStatus.RETIRED
    assert leads_to(world) == KEY


def test_a_node_that_retires_takes_back_no_change_of_its_cluster() -> None:
    world = World(nodes=(KEY.node, OTHER.node), mode=Mode.OBSERVE)
    registration = world.app.registry.registration
    act = {"mode": Mode.ACT}
    run_before_write(
        world.ports.seam, writes_to(keys.node_state(OTHER)), lambda: registration.set_cluster(KEY.cluster, act)
    )
    world.app.registry.retirement(OTHER, CaseOrder())
    config = registration.cluster(KEY.cluster)
    assert (config.mode, config.expected) == (Mode.ACT, 1)


def test_a_canary_that_two_workers_have_at_once_is_noted_once() -> None:
    world = World()
    world.app.ingestion.send_canary()
    (sent,) = world.ports.queue.messages
    delivery = Delivery("m-1", sent.body, world.now)
    run_after_read(world.ports.seam, KEPT, lambda: world.app.ingestion.ingest([replace(delivery, id="m-2")]))
    assert world.app.ingestion.ingest([delivery]).failed == {"m-1"}
    notes = [line.event["metadata"]["event_type"] for line in Timeline(world.ports.table).entries(Wanted(CANARIES))]
    assert notes.count("Node Note Recorded") == 1


def test_a_sign_of_life_is_not_written_over_by_an_older_one() -> None:
    world = World()
    run_before_write(world.ports.seam, writes_to(keys.seen(KEY)), beats(world, seconds=30))
    beats(world)()
    seen = world.ports.table.get(keys.seen(KEY))
    assert seen is not None
    assert seen["last_at"] == to_text(world.now + timedelta(seconds=30))


def test_a_node_that_is_heard_while_its_silence_is_judged_is_not_silent() -> None:
    world = World()
    beats(world)()
    world.ports.clock.advance(timedelta(minutes=10))
    run_before_write(world.ports.seam, writes_to(keys.node_state(KEY)), beats(world))
    world.app.ops.sweep()
    assert world.node().conditions == {}
    seen = world.ports.table.get(keys.seen(KEY))
    assert seen is not None
    assert (seen["last_at"], "gsi4pk" in seen) == (to_text(world.now), True)
