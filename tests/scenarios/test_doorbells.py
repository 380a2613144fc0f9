"""Many doorbells at once: their nodes are read together, and what was read is not believed longer than it holds."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import Isolation
from faultbridge.ports import ProviderFailure
from faultbridge.repair.isolate import Isolated
from tests.scenarios.test_breaker import CLUSTER_LIMIT, fail
from tests.scenarios.world import CLUSTER, World


def names(number: int) -> list[str]:
    return [f"node-{node}" for node in range(1, number + 1)]


def calls_for(number: int) -> Counter[str]:
    """The calls of the table when so many nodes ring at once, all of which wait for a breaker and were told so."""
    world = World(nodes=number, breakers=(CLUSTER_LIMIT,))
    fail(world, *range(1, number + 1))
    world.minute(4)
    before = len(world.seam.calls)
    world.react({(CLUSTER, name) for name in names(number)})
    assert world.control().breakers
    return Counter(call.name for call in world.seam.calls[before:])


def test_nodes_that_an_open_breaker_keeps_in_service_cost_no_calls_of_their_own():
    few, many = calls_for(20), calls_for(80)
    for name in ("table.get", "table.get_many", "table.query"):
        assert many[name] <= few[name] + 1, name


def test_a_node_that_recovered_since_it_was_read_is_not_cordoned():
    world = World(nodes=2, orchestrated=True)
    world.fault(1)
    world.fault(2)
    isolating = world.isolate.each(CLUSTER, names(2))
    world.clock.advance(5)
    world.clear(2)
    assert isolating["node-1"]() is Isolated.DONE
    assert isolating["node-2"]() is Isolated.NOTHING
    assert world.orchestrator.cordoned == {"node-1"}
    assert (world.node(2).isolation, world.status(2)) == (Isolation.NONE, NodeStatus.HEALTHY)


def test_a_node_for_which_the_orchestrator_was_asked_is_read_again_before_it_is_asked_again():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.fault()
    world.listen()
    isolating = world.isolate.each(CLUSTER, names(1))
    world.orchestrator.failures.clear()
    world.clock.advance(5)
    world.clear()
    world.minute()
    assert world.node().isolation is Isolation.NONE
    world.clock.advance(timedelta(minutes=10))
    assert isolating["node-1"]() is Isolated.NOTHING
    assert world.orchestrator.cordoned == set()


def test_a_breaker_that_opened_since_it_was_read_keeps_the_others_in_service():
    world = World(nodes=10, breakers=(CLUSTER_LIMIT,))
    world.fault(1)
    isolating = world.isolate.each(CLUSTER, names(1), world.control())
    fail(world, *range(2, 10))
    assert world.control().breakers
    assert isolating["node-1"]() is Isolated.HELD
    assert {world.status(node) for node in range(1, 10)} == {NodeStatus.DEGRADED}
