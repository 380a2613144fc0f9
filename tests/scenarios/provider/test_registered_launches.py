"""An instance that a repair launched and an operator then registered is a node, not an unused launch."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.registry.retirement import Retirement
from tests.scenarios.provider.builders import ready, world_with_ready
from tests.scenarios.world import CLUSTER, GROUP, World

OLD, LAUNCHED = "i-00000000000000001", "i-00000000000000002"
ORDER = OperatorOrder("jane")


def register(world: World) -> None:
    node = NewNode("node-2", LAUNCHED, GROUP, "p5.48xlarge", None)
    Registration(world.table, world.append, world.clock).add_node(CLUSTER, node)
    world.process_entries()


def world_with_a_refused_release() -> World:
    """Return a world whose successor runs, but whose old instance could not be released."""
    world = World()
    world.launch_from_template()
    world.fault()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until_case(CaseStatus.ESCALATED)
    return world


def test_it_serves_on_after_the_node_that_it_was_launched_for_was_retired() -> None:
    world = World()
    world.launch_from_template()
    world.fault()
    world.fleet.launch_delay = timedelta(minutes=5)
    world.fleet.terminate(OLD)
    world.process_entries()
    world.until(lambda: LAUNCHED in world.fleet.instances)
    Retirement(world.table, world.append, world.rulebook).retire(world.key(), ORDER)
    world.advance_minutes(6)
    register(world)
    world.advance_minutes(61)
    assert (world.live_instances(), world.status(2)) == ([LAUNCHED], NodeStatus.HEALTHY)


def test_it_serves_on_after_the_case_of_the_old_node_was_closed() -> None:
    world = world_with_a_refused_release()
    register(world)
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    world.advance_minutes(61)
    assert LAUNCHED in world.live_instances()
    assert world.launcher.terminated == []


def test_the_old_node_gets_a_successor_of_its_own() -> None:
    world = world_with_a_refused_release()
    register(world)
    world.node_orders.replace(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    successor = world.instance(1)
    assert successor not in {OLD, LAUNCHED}
    assert world.live_instances() == [LAUNCHED, successor]


def test_spares_that_an_operator_registered_are_each_taken_once_and_then_a_successor_is_launched() -> None:
    """They cannot be claimed; two of them would otherwise replace each other without end."""
    world = world_with_ready(2)
    for number, spare in enumerate(ready(world), start=8):
        node = NewNode(f"node-{number}", spare, GROUP, "p5.48xlarge", None)
        Registration(world.table, world.append, world.clock).add_node(CLUSTER, node)
    spares = ready(world)
    world.fault()
    world.fleet.terminate(OLD)
    world.until_case(CaseStatus.RESOLVED)
    assert world.record_history().count("capacity spare_taken") == 2
    successor = world.instance()
    assert successor not in {OLD, *spares}
