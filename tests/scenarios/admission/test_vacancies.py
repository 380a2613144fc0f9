"""Vacancies: nodes without an instance limit further replacements, and block no other repair."""

from __future__ import annotations

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.faults import Action
from faultbridge.domain.policy import Match, Rule
from tests.scenarios.world import World, limits

RESOLVED, QUEUED = CaseStatus.RESOLVED, CaseStatus.QUEUED
REPAIRED_IN_PLACE = tuple(
    Rule(action.value.replace("_", "-"), Match(codes=(code,)), action=action)
    for code, action in (("xid.48", Action.REBOOT_NODE), ("xid.63", Action.RESET_GPU))
)


def world_without_successors(nodes: int = 6, faulty: int = 2, **others) -> World:
    """Return a world whose first nodes were released, and whose group launches nothing."""
    world = World(nodes=nodes, rules=REPAIRED_IN_PLACE, **others)
    world.fleet.set_capacity(0)
    for node in range(1, faulty + 1):
        world.fault(node)
    world.process_entries()
    world.advance_minutes(2)
    return world


def without_instance(world: World, nodes: int) -> list[int]:
    """Return the nodes whose instance is terminated."""
    found = {node: world.node(node).incarnation for node in range(1, nodes + 1)}
    return [node for node, one in found.items() if one is None or not world.fleet.is_alive(str(one.instance_id))]


@pytest.mark.parametrize("code", ["xid.48", "xid.63"])
def test_repairs_that_wait_for_successors_do_not_block_a_reboot_or_a_reset(code: str):
    world = world_without_successors()
    assert [world.status(node) for node in (1, 2)] == [NodeStatus.PROVISIONING] * 2
    world.fault_and_react(3, code)
    assert world.until(world.case_is(RESOLVED, 3), minutes=60) < 40
    assert [world.status(node) for node in (1, 2)] == [NodeStatus.PROVISIONING] * 2


def test_at_most_the_permitted_number_of_nodes_is_repaired_in_place_while_others_wait_for_successors():
    world = world_without_successors(nodes=8)
    for node in (3, 4, 5, 6):
        world.fault(node, "xid.48")
    world.process_entries()
    running = set()
    for _ in range(60):
        running.add(sum(world.status(node) is NodeStatus.REPAIRING for node in (3, 4, 5, 6)))
        world.advance_minutes()
    assert max(running) == 2
    assert {world.case(node).status for node in (3, 4, 5, 6)} == {RESOLVED}


def test_a_replacement_does_not_use_the_slot_of_a_repair_that_waits_for_a_successor():
    world = world_without_successors(faulty=1, limits=limits(concurrent=1))
    world.fault_and_react(2)
    world.advance_minutes(5)
    assert (world.status(2), world.case(2).status) == (NodeStatus.QUARANTINED, QUEUED)
    assert world.case(2).reason == "the policy's limit of concurrent repairs is reached"
    assert len(world.released_instances()) == 1
