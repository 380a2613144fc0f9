"""Cases without capacity are tried in turn, and an attempt without capacity does not collect the node's logs."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.decide.answers import node_answer
from faultbridge.model.cluster.state import CLUSTER_BREAKER, BreakerLimit
from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from faultbridge.record.rulebook import rules_of
from tests.scenarios.world import CLUSTER, World, limits

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


LIMIT = BreakerLimit(nodes=3, percent=20, quiet=timedelta(minutes=10))


def wrong_check(world: World) -> None:
    """Report a fatal fault of every node in service that has no case, new instances included."""
    for node in NODES:
        state = world.node(node)
        if state.status is not None and state.status.in_service and state.live_case is None:
            world.fault(node)
    world.process_entries()


def world_with_wrong_check(hours: int) -> World:
    """Return a world after some hours of the wrong check."""
    world = World(nodes=len(NODES), breakers=(LIMIT,), limits=limits(per_hour=500))
    for _ in range(hours * 60):
        wrong_check(world)
        world.advance_minutes()
    return world


def test_a_wrong_health_check_loses_one_node_for_each_opening_and_then_waits_for_an_operator() -> None:
    world = world_with_wrong_check(3)
    breaker = world.control().breakers[CLUSTER_BREAKER]
    assert (breaker.stays_open, len(breaker.opened)) == (True, LIMIT.openings)
    assert len(world.released_instances()) <= LIMIT.openings
    waiting = [node for node in NODES if world.case(node).waiting_for is WaitingFor.BREAKER]
    assert waiting
    reasons = {world.case(node).reason for node in waiting}
    assert reasons == {"the breaker opened too often and stays open until no node fails or an operator closes it"}
    config = rules_of(world.rulebook, CLUSTER).config
    found = node_answer(world.node(waiting[0]), config, world.control(), world.clock.now())
    assert found.needs_you
    assert found.commands[0] == f"faultbridge breaker --cluster {CLUSTER} --close"
    world.controls.close_breakers(CLUSTER, "ada")
    for node in waiting:
        world.until(world.case_is(CaseStatus.RESOLVED, node))
