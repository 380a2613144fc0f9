"""What a claim changes: the node's generation, its roster row, and the names of its instances."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.nodes import Alias, AliasRow
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.builders import NOON
from tests.scenarios.world import CLUSTER, GROUP, World

FIRST, SECOND = "i-00000000000000001", "i-00000000000000002"


def world_with_a_claimed_successor() -> World:
    """Return a world whose node has a successor that is not verified yet."""
    world = World()
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    return world


def test_a_claimed_instance_starts_with_its_first_boot() -> None:
    incarnation = world_with_a_claimed_successor().node().incarnation
    assert incarnation is not None
    assert (incarnation.instance, incarnation.boot, incarnation.instance_id) == (2, 1, SECOND)


def test_the_roster_names_the_claimed_instance_and_its_generation() -> None:
    world = world_with_a_claimed_successor()
    row = world.table.get(keys.roster(CLUSTER, world.node().shard, "node-1"))
    assert row is not None
    assert (row["generation"], row["instance"]) == (2, SECOND)


def test_a_node_with_a_claimed_instance_no_longer_counts_as_imported_without_verification() -> None:
    world = World()
    assert (world.node().unverified, world.control().unverified) == (True, 1)
    world = world_with_a_claimed_successor()
    assert (world.node().unverified, world.control().unverified) == (False, 0)


def test_a_node_that_is_not_named_after_its_host_is_not_named_after_the_claimed_instance_either() -> None:
    assert world_with_a_claimed_successor().node().placement.named_after is None


def test_an_instance_that_is_listed_late_backs_the_node_since_its_launch_although_the_attempt_is_younger() -> None:
    world = World()
    world.fleet.capacity_left = 0
    world.fault_and_react()
    world.workflow.abort(f"{world.case().id}-1")
    world.advance_minutes(5)
    assert world.case().attempts == 2
    launched_at = NOON + timedelta(seconds=30)
    world.fleet.launch(GROUP, at=launched_at)
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    incarnation = world.node().incarnation
    assert incarnation is not None
    assert incarnation.since == launched_at


def test_a_host_name_that_belongs_to_another_node_by_now_stays_with_it() -> None:
    world = World(nodes=2)
    host, old = "ip-10-0-0-5", world.fleet.launch(GROUP, f"i-{9:017x}", NOON - timedelta(days=1))
    new_node = NewNode("node-9", old, GROUP, "p5.48xlarge", host_names=(host,), since=NOON - timedelta(days=1))
    Registration(world.table, world.append, world.clock).add_node(CLUSTER, new_node)
    alias, row = Alias("name", f"{CLUSTER}/{host}"), AliasRow(world.key(2), SECOND, NOON)
    world.table.write(Put(items.alias_item(alias, row, NOON)))
    world.fault_until(CaseStatus.RESOLVED, 9)
    stored = world.table.get(keys.alias(*alias))
    assert stored is not None
    assert items.read_alias(stored) == row
