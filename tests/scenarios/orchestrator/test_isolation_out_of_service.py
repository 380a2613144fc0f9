"""A node out of service is cordoned while it waits: a new instance, a node after a race, a node that was uncordoned."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.repair.isolate import IsolationResult
from tests.races import run_before_call
from tests.scenarios.orchestrator.unreachable_orchestrator import DEAD, PROCEED, pages, unreachable_world
from tests.scenarios.provider.growth import Growth
from tests.scenarios.world import CLUSTER, World, limits


def test_a_new_instance_is_cordoned_while_repairs_are_paused() -> None:
    growth = Growth(orchestrated=True)
    growth.world.pause_repairs(paused=True)
    (instance,) = growth.launch()
    growth.run_inventory()
    growth.world.advance_minutes(10)
    node = growth.node(instance)
    assert (node.status, node.isolation) == (NodeStatus.VALIDATING, Isolation.CONFIRMED)
    assert node.key.node in growth.world.orchestrator.cordoned
    growth.world.pause_repairs(paused=False)
    growth.until_verified(instance)
    assert growth.node(instance).status is NodeStatus.HEALTHY
    assert node.key.node not in growth.world.orchestrator.cordoned


def test_without_an_orchestrator_nothing_confirms_the_isolation_of_a_new_instance() -> None:
    """Found by seed 83000110."""
    growth = Growth()
    growth.world.pause_repairs(paused=True)
    (instance,) = growth.launch()
    growth.run_inventory()
    growth.world.advance_minutes(10)
    assert growth.node(instance).isolation is not Isolation.CONFIRMED


def test_an_instance_that_others_replaced_is_cordoned_while_repairs_are_paused() -> None:
    growth = Growth(orchestrated=True)
    world = growth.world
    world.pause_repairs(paused=True)
    world.fleet.terminate("i-00000000000000002")
    growth.run_inventory()
    (instance,) = growth.launch()
    world.clock.advance(timedelta(minutes=1))
    growth.run_inventory()
    world.advance_minutes(10)
    incarnation = world.node(2).incarnation
    assert incarnation is not None
    assert incarnation.instance_id == instance
    assert "node-2" in world.orchestrator.cordoned


def test_a_dead_instance_is_replaced_although_the_orchestrator_removed_its_node() -> None:
    world = World(orchestrated=True, rules=(PROCEED,))
    world.launch_from_template()
    world.fleet.terminate("i-00000000000000001")
    world.orchestrator.unknown_nodes.add("node-1")
    world.fault_and_react(code=DEAD[0], source=DEAD[1])
    world.until(lambda: bool(world.live_instances()))
    world.orchestrator.unknown_nodes.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.status() is NodeStatus.HEALTHY


def test_a_node_that_the_orchestrator_does_not_know_is_drained_but_not_recorded_as_cordoned() -> None:
    world = World(orchestrated=True, rules=(PROCEED,))
    world.fleet.launch_delay = timedelta(hours=3)
    world.orchestrator.unknown_nodes.add("node-1")
    world.fault_and_react(code=DEAD[0], source=DEAD[1])
    world.until(lambda: "drain drained" in world.record_history(), minutes=60)
    assert world.node().isolation is Isolation.REQUESTED


def test_a_failed_node_that_joins_the_orchestrator_late_is_cordoned() -> None:
    world = World(orchestrated=True, rules=(PROCEED,), limits=limits(launch_deadline=timedelta(hours=1)))
    world.fleet.capacity_left = 0
    world.orchestrator.unknown_nodes.add("node-1")
    world.fault_and_react(code=DEAD[0], source=DEAD[1])
    world.until(world.case_is(CaseStatus.ESCALATED), minutes=120)
    assert (world.status(), world.node().isolation) == (NodeStatus.FAILED, Isolation.REQUESTED)
    world.orchestrator.unknown_nodes.clear()
    world.advance_minutes(30)
    assert world.node().isolation is Isolation.CONFIRMED
    assert "node-1" in world.orchestrator.cordoned


def test_an_uncordon_that_arrives_after_a_newer_cordon_is_corrected() -> None:
    world = World(orchestrated=True)
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    world.fault_and_react()
    world.clock.advance(timedelta(seconds=20))
    world.clear()
    world.clock.advance(timedelta(minutes=1))
    late: list[bool] = []

    def fail_again_before_the_uncordon(call: object) -> None:
        if getattr(call, "name", "") == "orchestrator.uncordon" and not late:
            late.append(True)
            world.fault(code="xid.79")
            world.isolate.isolate(world.key())

    world.seam.before = fail_again_before_the_uncordon
    world.isolate.isolate(world.key())
    assert late
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.CONFIRMED)
    assert "node-1" in world.orchestrator.cordoned


def test_a_node_that_fails_just_after_its_uncordon_is_cordoned_once_the_orchestrator_answers() -> None:
    world = World(orchestrated=True)
    late: list[bool] = []

    def fail_after_the_uncordon(call: object) -> None:
        if getattr(call, "name", "") == "orchestrator.uncordon" and not late:
            late.append(True)
            world.clock.advance(timedelta(seconds=1))
            world.fault()
            world.orchestrator.unreachable_until = world.clock.now() + timedelta(hours=3)

    world.fault_and_react()
    world.seam.after = fail_after_the_uncordon
    world.until(lambda: bool(late))
    world.advance_minutes(5 * 60)
    assert "node-1" in world.orchestrator.cordoned
    assert world.node().isolation is Isolation.CONFIRMED
    assert pages(world) == ["note isolation overdue", "note isolation over"]


def test_the_next_cordon_of_a_node_out_of_service_is_scheduled_while_the_orchestrator_is_unreachable() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.pause_repairs(paused=True)
    world.advance_minutes(30)
    state = world.node()
    assert (state.status, state.isolation) == (NodeStatus.QUARANTINED, Isolation.REQUESTED)
    assert state.isolation_again_at is not None
    assert state.isolation_again_at > world.clock.now()


def reachable_again() -> World:
    """Return a world whose dead node waits out of service, and whose orchestrator has just become reachable."""
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.pause_repairs(paused=True)
    world.advance_minutes(15)
    world.orchestrator.unreachable_until = None
    world.clock.advance(timedelta(minutes=5))
    return world


def test_a_cordon_of_an_instance_that_was_replaced_meanwhile_does_not_isolate_its_successor() -> None:
    world = reachable_again()

    def succeed(state: NodeState, _now: datetime) -> Transition:
        assert state.incarnation is not None
        return Transition(replace(state, incarnation=replace(state.incarnation, instance=2, instance_id="i-2")))

    attach = partial(world.append, world.key(), succeed, actor=Actor.INVENTORY)
    run_before_call(world.seam, "orchestrator.cordon", attach)
    world.isolate.isolate(world.key())
    assert world.instance() == "i-2"
    assert world.node().isolation is Isolation.REQUESTED


def test_a_cordon_that_a_repair_has_overtaken_is_left_to_the_repair() -> None:
    """The repair may have uncordoned the node before this answer arrives."""
    world = reachable_again()
    world.collector.duration = timedelta(hours=1)  # the repair waits for the logs

    def admit() -> None:
        world.pause_repairs(paused=False)
        world.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 9)
        world.dispatch.admit_cases(CLUSTER)
        world.orchestrator.failures.clear()

    run_before_call(world.seam, "orchestrator.cordon", admit)
    world.isolate.isolate(world.key())
    assert (world.case().status, world.node().isolation) == (CaseStatus.IN_PROGRESS, Isolation.REQUESTED)


def test_a_node_out_of_service_is_not_cordoned_again_before_the_delay_of_a_failed_call_ends() -> None:
    world = reachable_again()
    world.orchestrator.fail_next(ProviderFailure.TIMEOUT)
    results = [world.isolate.isolate(world.key()) for _ in range(2)]
    assert results == [IsolationResult.FAILED, IsolationResult.POSTPONED]
    assert world.orchestrator.cordoned == set()
