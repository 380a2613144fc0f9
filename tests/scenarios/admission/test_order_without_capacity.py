"""Cases without capacity are tried in turn, and an attempt without capacity does not collect the node's logs."""

from __future__ import annotations

from faultbridge.model.enums import NodeStatus
from faultbridge.record.ports import Capacity, CapacityEvidence
from tests.scenarios.world import World

FULL = Capacity(CapacityEvidence.OWN_RESERVATION, free=False, count=0)
FREE = Capacity(CapacityEvidence.OWN_RESERVATION)
NODES = range(1, 9)


def world_without_capacity(nodes: int = 8) -> World:
    world = World(nodes=nodes)
    world.provider.known_capacity = FULL
    for node in range(1, nodes + 1):
        world.fault(node)
    world.process_entries()
    return world


def test_each_node_of_a_group_without_capacity_is_tried() -> None:
    world = world_without_capacity()
    world.advance_minutes(12 * 60)
    tries = [world.case(node).attempts + world.case(node).capacity_checks for node in NODES]
    assert min(tries) > 1
    assert max(tries) - min(tries) <= 1


def test_a_node_whose_own_reservation_has_room_is_replaced_although_others_wait_for_capacity() -> None:
    world = world_without_capacity()
    world.advance_minutes(120)
    ask = world.provider.capacity

    def capacity(source, instance_id: str, group: str) -> Capacity:
        found = ask(source, instance_id, group)
        return FREE if instance_id == "i-00000000000000008" else found

    world.provider.capacity = capacity
    world.until(lambda: world.status(8) is NodeStatus.HEALTHY)
    assert world.released_instances() == ["i-00000000000000008"]


def test_an_attempt_without_capacity_collects_no_logs() -> None:
    world = world_without_capacity(1)
    world.advance_minutes(120)
    assert world.case().attempts == 1
    assert "collect kept" not in world.record_history()
    world.provider.known_capacity = FREE
    world.until(lambda: world.status() is NodeStatus.HEALTHY)
    assert world.record_history().count("collect kept") == 1
