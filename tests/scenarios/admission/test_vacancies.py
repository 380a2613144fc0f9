"""Vacancies: nodes without an instance limit further replacements, and block no other repair."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from tests.races import run_before_call, run_before_write, writes_to
from tests.scenarios.world import CLUSTER, GROUP, World, limits

RESOLVED, QUEUED = CaseStatus.RESOLVED, CaseStatus.QUEUED
REPAIRED_IN_PLACE = tuple(
    Rule(action.value.replace("_", "-"), Match(codes=(code,)), severity=Severity.FATAL, action=action)
    for code, action in (("xid.48", Action.REBOOT_NODE), ("xid.63", Action.RESET_GPU))
)


def world_without_successors(nodes: int = 6, faulty: int = 2, **others) -> World:
    """Return a world whose first nodes were released, and whose group launches nothing."""
    world = World(nodes=nodes, rules=REPAIRED_IN_PLACE, **others)
    world.fleet.set_capacity(0)
    for node in range(1, faulty + 1):
        world.fault(node)
    world.process_entries(minutes=2)
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
    for node, code in ((3, "xid.48"), (4, "xid.48"), (5, "xid.63"), (6, "xid.63")):
        world.fault(node, code)
    world.process_entries()
    running = set()
    for _ in range(60):
        running.add(sum(world.status(node) is NodeStatus.REPAIRING for node in (3, 4, 5, 6)))
        world.advance_minutes()
    assert max(running) == 2
    assert {world.case(node).status for node in (3, 4, 5, 6)} == {RESOLVED}


def test_a_replacement_does_not_use_the_slot_of_a_repair_that_waits_for_a_successor():
    world = world_without_successors(faulty=1, limits=limits(concurrent=1))
    world.fault_and_react(2, minutes=5)
    assert (world.status(2), world.case(2).status) == (NodeStatus.QUARANTINED, QUEUED)
    assert world.case(2).reason == "the policy's limit of concurrent repairs is reached"
    assert len(world.released_instances()) == 1


def lose(world: World, node: int) -> None:
    """Let another tool terminate the instance of a node, and let the inventory find out."""
    config, instance = world.rulebook.config(CLUSTER), str(world.instance(node))
    world.fleet.terminate(instance)
    ReplacementDetection(world.table, world.append, world.rulebook).vacate(config, f"node-{node}", instance)


def test_an_outage_of_launches_leaves_at_most_the_permitted_number_of_nodes_without_an_instance():
    world = world_without_successors(nodes=20)
    for node in range(3, 13):
        world.fault_and_react(node, minutes=60)
    assert {world.case(node).status for node in (1, 2)} == {CaseStatus.ESCALATED}
    assert without_instance(world, 20) == [1, 2]
    assert {world.case(node).waiting_for for node in range(3, 13)} == {WaitingFor.CAPACITY}


def test_a_group_that_owes_a_successor_for_15_minutes_loses_no_further_instance():
    world = world_without_successors(faulty=1, limits=limits(concurrent=4))
    world.advance_minutes(11)
    world.fault_and_react(2)
    assert without_instance(world, 6) == [1, 2]
    world.advance_minutes(2)
    world.fault_and_react(3)
    since = world.node(1).incarnation.gone_since
    reason = f"{GROUP} has launched no successor for node-1 since {since:%Y-%m-%dT%H:%M}:00.000Z"
    assert (world.case(3).waiting_for, world.case(3).reason) == (WaitingFor.CAPACITY, reason)
    world.advance_minutes(60)
    assert (without_instance(world, 6), world.status(3)) == ([1, 2], NodeStatus.QUARANTINED)
    world.fleet.set_capacity(None)
    world.until(world.case_is(RESOLVED, 3))
    assert world.status(3) is NodeStatus.HEALTHY


def test_a_group_that_owes_a_successor_delays_no_replacement_in_another_group():
    world = world_without_successors(faulty=1)

    def move(state, _):
        return Transition(replace(state, placement=replace(state.placement, group="others")))

    world.append(world.key(2), move, actor=Actor.INVENTORY)
    world.advance_minutes(20)
    world.fault_and_react(2)
    assert without_instance(world, 6) == [1, 2]


@pytest.mark.parametrize(("minutes", "reason"), [(5, "2 other nodes have no instance"), (20, "has launched no")])
def test_a_release_is_checked_again_after_the_drain(minutes: int, reason: str):
    world = World(nodes=6, orchestrated=True)
    world.fleet.set_capacity(0)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=minutes)
    world.fault_and_react(1)
    assert world.status(1) is NodeStatus.DRAINING
    lose(world, 2)
    lose(world, 3)
    world.advance_minutes(minutes + 11)
    assert (world.released_instances(), world.status(1)) == ([], NodeStatus.QUARANTINED)
    assert any(reason in str(body["data"].get("reason")) for body in world.bodies(1))
    assert world.case(1).counted_attempts == 0


def test_a_node_that_lost_its_instance_is_not_refused_because_of_others_when_no_probe_answers():
    world = World(nodes=6)
    world.fleet.set_capacity(0)
    lose(world, 2)
    lose(world, 3)
    world.fault_and_react(1)
    assert world.case(1).waiting_for is WaitingFor.BUDGET
    lose(world, 1)
    world.provider.probe_unknown = True
    world.advance_minutes(5)
    assert world.status(1) is NodeStatus.PROVISIONING
    assert world.record_history(1).count("case in_progress -> queued") == 0
    world.provider.probe_unknown = False
    world.fleet.set_capacity(None)
    world.until(world.case_is(RESOLVED, 1), minutes=60)


def test_instances_that_others_terminated_count_as_nodes_without_an_instance():
    world = World(nodes=6)
    world.fleet.set_capacity(0)
    lose(world, 1)
    lose(world, 2)
    world.fault_and_react(3)
    assert world.released_instances() == []
    assert world.case(3).waiting_for is WaitingFor.BUDGET
    assert (
        world.case(3).reason == "the policy's limit of concurrent repairs is reached: nodes without an instance count"
    )


def test_an_operator_may_retry_nodes_without_an_instance_although_their_group_owes_successors():
    world = world_without_successors()
    world.until(world.case_is(CaseStatus.ESCALATED))
    world.advance_minutes(5)
    world.fleet.set_capacity(None)
    for node in (1, 2):
        world.node_orders.replace(world.key(node), OperatorOrder("ada"))
    world.process_entries()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node), minutes=60)
    assert len(world.released_instances()) == 2


def test_a_retry_of_a_node_without_an_instance_does_not_restart_the_time_that_its_group_owes_a_successor():
    world = world_without_successors(faulty=1)
    world.until(world.case_is(CaseStatus.ESCALATED, 1), minutes=600)
    world.node_orders.replace(world.key(1), OperatorOrder("ada"))
    world.process_entries(minutes=2)
    assert world.status(1) is NodeStatus.PROVISIONING
    world.fault_and_react(2, minutes=5)
    assert world.released_instances() == [world.instance(1)]


def test_a_release_that_got_no_answer_is_not_repeated_while_the_group_owes_a_successor():
    world = world_without_successors(faulty=1)
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    world.provider.probe_unknown = True
    world.fault_and_react(2, minutes=13)
    world.provider.probe_unknown = False
    world.advance_minutes(4)
    assert (world.status(2), without_instance(world, 6)) == (NodeStatus.REPLACING, [1])
    world.fleet.set_capacity(None)
    world.until(world.case_is(RESOLVED, 2), minutes=60)


def test_two_reactions_at_once_leave_at_most_the_permitted_number_of_nodes_without_an_instance():
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR, action=Action.REPLACE_NODE)
    world = World(nodes=4, rules=(mild,))
    world.fleet.set_capacity(0)
    world.fault(2, "xid.48")
    world.isolate.isolate(world.key(2))
    lose(world, 1)

    def react_to_a_worse_fault() -> None:
        world.fault(3)
        world.isolate.isolate(world.key(3))
        world.dispatch.admit_cases(CLUSTER)

    run_before_write(world.seam, writes_to(keys.cluster_control(CLUSTER)), react_to_a_worse_fault)
    world.dispatch.admit_cases(CLUSTER)
    assert (world.case(2).attempts, list(world.control().holders)) == (0, [world.case(3).id])
    world.advance_minutes(10)
    assert len(without_instance(world, 4)) == 2


@pytest.mark.parametrize("concurrent", [1, 2])
def test_instances_that_others_terminate_between_the_check_and_the_intent_prevent_the_release(concurrent: int):
    world = World(nodes=4, limits=limits(concurrent=concurrent))
    world.fleet.set_capacity(0)

    def lose_others() -> None:
        for node in range(2, 2 + concurrent):
            lose(world, node)

    run_before_call(world.seam, "collector.collect", lose_others)
    world.fault_and_react(1, minutes=10)
    assert world.released_instances() == []
    assert "intent committed" not in world.record_history()
    assert world.case(1).waiting_for is WaitingFor.BUDGET


def world_with_unanswered_releases(unanswered: int) -> World:
    """Return a world in which releases get no answer and no probe shows their effect."""
    world = World(nodes=4, orchestrated=True)
    world.fleet.set_capacity(0)
    world.provider.probe_unknown = True
    for node in (1, 2):
        world.provider.fail_next(ProviderFailure.AMBIGUOUS)
        world.orchestrator.busy_until[f"node-{node}"] = world.clock.now() + timedelta(minutes=5 * node)
        world.fault(node)
    world.process_entries()
    world.until(lambda: len(world.released_instances()) == unanswered)
    lose(world, 3)
    return world


def test_a_release_that_is_not_confirmed_counts_before_the_intent_of_another():
    world = world_with_unanswered_releases(1)
    world.advance_minutes(16)
    assert [world.status(node) for node in (1, 2)] == [NodeStatus.REPLACING, NodeStatus.QUARANTINED]
    assert len(world.released_instances()) == 1


def test_of_two_releases_that_are_not_confirmed_one_continues():
    world = world_with_unanswered_releases(2)
    world.provider.probe_unknown = False
    world.advance_minutes(12)
    assert len(without_instance(world, 4)) == 2
