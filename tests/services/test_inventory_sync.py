"""Inventory: what a group has more than seats becomes a seat; what may be a successor is left to the repair."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.records import Outcome
from faultbridge.services.inventory import Machine
from faultbridge.services.inventory_sync import SyncInventory
from faultbridge.services.registration import NewNode
from tests.builders import KEY
from tests.world import GROUP, XID_79, World


class FakeInventory:
    """An Inventory (fake) over the fake fleet; it counts calls."""

    def __init__(self, fleet) -> None:
        self.fleet = fleet
        self.calls = 0

    def serving(self, groups: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        self.calls += 1
        return {group: {one.instance_id: "use1-az1" for one in self.fleet.running(group)} for group in groups}

    def describe(self, group: str, serving: Mapping[str, str]) -> tuple[Machine, ...]:
        self.calls += -(-len(serving) // 100)
        return tuple(Machine(one, f"ip-{one[-4:]}", group, domain=zone) for one, zone in serving.items())

    def machines(self, group: str) -> tuple[Machine, ...]:
        return self.describe(group, self.serving([group])[group])


@pytest.fixture
def world():
    return World(nodes=("a", "b"))


@pytest.fixture
def inventory(world):
    return FakeInventory(world.ports.fleet)


def sync(world, inventory):
    (synced,) = SyncInventory(world.ports.table, world.app.registration, {"ec2-auto-scaling": inventory})()
    return synced


def test_a_group_as_registered_costs_one_call_and_changes_nothing(world, inventory):
    before = list(world.ports.table.items())
    assert (sync(world, inventory).seats, inventory.calls) == (2, 1)
    assert list(world.ports.table.items()) == before


def test_a_group_that_grew_has_a_seat_more_that_serves_unverified_and_takes_records(world, inventory):
    new = world.ports.fleet.launch(GROUP)
    assert sync(world, inventory).added == (f"ip-{new[-4:]}",)
    state = world.node(KEY._replace(node=f"ip-{new[-4:]}"))
    assert (state.status, state.unverified, state.seat.domain) == (NodeStatus.HEALTHY, True, "use1-az1")
    assert world.outcomes(world.message(XID_79, node=new)) == [Outcome.RECORDED]
    assert sync(world, inventory).added == ()


def test_the_successor_of_a_seat_is_left_to_its_repair(world, inventory):
    gone = world.node(KEY._replace(node="a")).incarnation.instance_id
    fleet = world.ports.fleet
    fleet.instances[gone] = replace(fleet.instances[gone], alive=False)
    new = fleet.launch(GROUP)
    synced = sync(world, inventory)
    assert (synced.added, synced.gone, synced.waiting) == ((), ("a",), (new,))
    assert world.node(KEY._replace(node="a")).incarnation.instance_id == gone


def test_an_empty_seat_keeps_new_instances_for_itself(world, inventory):
    world.app.registration.add_node(KEY.cluster, NewNode("c", group=GROUP))
    new = world.ports.fleet.launch(GROUP)
    assert sync(world, inventory).waiting == (new,)


def test_a_group_that_is_not_there_says_nothing_about_its_seats(world, inventory):
    inventory.serving = lambda _groups: {}
    assert sync(world, inventory).gone == ()


def test_a_machine_whose_name_is_taken_is_refused_and_stops_no_other(world, inventory):
    first, second = world.ports.fleet.launch(GROUP), world.ports.fleet.launch(GROUP)
    inventory.describe = lambda group, serving: tuple(
        Machine(one, {first: "a"}.get(one, "free"), group) for one in serving
    )
    synced = sync(world, inventory)
    assert (synced.added, dict(synced.refused)) == (("free",), {first: "node_exists"})
    assert second


@pytest.mark.slow
def test_twelve_thousand_five_hundred_nodes_cost_a_call_a_look():
    world = World(nodes=(), shards=16)
    rows = []
    for number in range(12_500):
        group = f"group-{number // 500:02d}"
        instance = world.ports.fleet.launch(group)
        rows.append(NewNode(f"n-{number:05d}", instance, group=group))
    for row in rows[::250]:  # a seat of each group is enough to name it; the rest is new to the sync
        world.app.registration.add_node(KEY.cluster, row)
    inventory = FakeInventory(world.ports.fleet)
    sync(world, inventory)
    first = inventory.calls
    sync(world, inventory)
    assert first <= 1 + 25 * 5
    assert inventory.calls - first == 1
