"""A health check that wrongly reports healthy nodes costs a bounded number of nodes, not one per quiet period."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.decide.required_order import required_order
from faultbridge.model.cluster.state import CLUSTER_BREAKER, BreakerLimit
from faultbridge.model.enums import CaseStatus, WaitingFor
from faultbridge.record.rulebook import rules_of
from tests.scenarios.world import CLUSTER, World, limits

NODES = range(1, 9)
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
    order = required_order(world.node(waiting[0]), config, world.clock.now(), world.control())
    assert order is not None
    assert order.command == f"faultbridge breaker --cluster {CLUSTER} --close"
    world.controls.close_breakers(CLUSTER, "ada")
    for node in waiting:
        world.until(world.case_is(CaseStatus.RESOLVED, node))
